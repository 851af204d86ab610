/** Every operation, as a tool of agents: its answers and problems are those of HTTP (contract §17). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { modules as allModules } from "../../src/api/Access.ts"
import { type Answer, type Request, send } from "../support/ContractHttp.ts"
import { callTool, mcpRequest, resultOf, revisions, rpcOf, type ToolResult } from "../support/Mcp.ts"
import { TestServer } from "../support/TestServer.ts"
import { type Change, newKey, queryOf, referring, requestOf } from "./Requests.ts"
import { missingOf, type Sample } from "./Sample.ts"
import { samples, World } from "./Samples.ts"
import { each, hasBody, isMutation, isScoped, otherScopes, walkingOver } from "./Walk.support.ts"

/** What the test reads of the reference. */
interface Reference {
  readonly paths: Record<
    string,
    Record<string, { readonly operationId: string; readonly summary: string; readonly description: string }>
  >
}

/** Returns the arguments of the tool that ask for what a request asks for. */
const argumentsOf = (sample: Sample, { json, key, path = "" }: Request): Record<string, unknown> => {
  const [given = "", query = ""] = path.split("?")
  const names = sample.path.split("/")
  const params = given
    .slice("/api".length)
    .split("/")
    .flatMap((segment, i) => {
      const name = /^\{(\w+)\}$/.exec(names[i] ?? "")?.[1]
      return name === undefined ? [] : [[name, decodeURIComponent(segment)] as const]
    })
  return {
    ...Object.fromEntries(new URLSearchParams(query)),
    ...Object.fromEntries(params),
    ...(key === undefined ? {} : { idempotencyKey: key }),
    ...(json === undefined ? {} : { body: json })
  }
}

/** The argument of a tool that is at a location of HTTP. */
const argumentAt = (location: string) =>
  location === "header/idempotency-key" ? "idempotencyKey" : location.replace(/^(?:path|query)\//, "")

/** A problem without what differs between two requests, and with the faults in one order. */
const comparable = (body: unknown, placeOf: (location: string) => string): unknown => {
  const { detail: _, errors, instance, ...rest }: Record<string, unknown> = JSON.parse(JSON.stringify(body))
  assert.isString(instance)
  if (errors === undefined) return rest
  const faults = Object.entries(errors ?? {}).map(([location, messages]) => {
    // The operation knows parameters, the tool arguments.
    const text = String(messages).replace(
      /^is not known here: this (?:operation|tool).*|^is not known here: the arg.*/,
      "unknown"
    )
    return [placeOf(location), text]
  })
  return { ...rest, errors: faults.toSorted() }
}

/** Asserts that Retry-After is what it was in an answer of less than a test's time limit ago. */
const assertLater = (later: unknown, earlier: string | undefined, what: string) => {
  if (earlier === undefined) return assert.isUndefined(later, what)
  assert.match(String(later), /^\d+$/, what)
  assert.isAtMost(Number(later), Number(earlier), what)
  assert.isAtLeast(Number(later), Number(earlier) - 120, what)
}

/** An answer without what was measured while it was made. */
const untimed = (answer: unknown) => {
  const { durationMs: _, ...rest }: Record<string, unknown> = Object(answer)
  return rest
}

/** Asserts that a tool's result has the body of an answer, and the headers of it that agents see. */
const assertSame = (result: ToolResult, answer: Answer, what: string) => {
  assert.strictEqual(result.isError, answer.status >= 400, what)
  const { body, expected } = result.isError
    ? { body: comparable(result.structuredContent, String), expected: comparable(answer.json, argumentAt) }
    : { body: untimed(result.structuredContent), expected: untimed(answer.json) }
  assert.deepStrictEqual(body, expected, what)
  assert.strictEqual(result._meta["etag"], answer.headers["etag"], what)
  assertLater(result._meta["retry-after"], answer.headers["retry-after"], what)
  assert.strictEqual(result._meta["ratelimit"] === undefined, answer.headers["ratelimit"] === undefined, what)
  const replayed = answer.headers["idempotent-replayed"] === undefined ? undefined : true
  assert.strictEqual(result._meta["idempotent-replayed"], replayed, what)
}

const long = "x".repeat(161)

/** Changes that make a sample faulty. */
const faultsOf = (sample: Sample): ReadonlyArray<Change> => [
  ...(sample.body === undefined
    ? [{ json: {} }, { json: ["\u0000"] }]
    : [
        { json: { ...sample.body, surprise: 1 } },
        // An upsert requires no member while its record exists.
        ...(sample.path.includes("/by-external-id/") ? [] : [{ json: {} }]),
        { json: [] },
        ...Object.keys(sample.body).map((name) => ({ json: { ...sample.body, [name]: { "a/b": [null, "\u0000"] } } }))
      ]),
  ...(sample.key === undefined ? [] : [{ key: undefined }, { key: long }]),
  ...Object.keys(sample.params ?? {}).flatMap((name) => [long, "a%00"].map((id) => ({ params: { [name]: id } }))),
  ...(sample.references ?? []).flatMap((reference) => [
    referring(sample, [reference], missingOf),
    referring(sample, [reference], ({ foreign }) => foreign)
  ]),
  { query: "surprise=1" },
  ...queryOf(sample).flatMap(([name]) => [{ query: `${name}=${"nothing".repeat(700)}` }, { query: `${name}=%00` }])
]

layer(World.layer, { excludeTestServices: true })("every tool", (it) => {
  const walk = walkingOver(it)
  const walkMutations = walkingOver(it, isMutation)
  const walkBodies = walkingOver(it, hasBody)
  const walkReads = walkingOver(it, (sample) => !isMutation(sample))

  walkReads("answers what the operation answers", function* (sample, { name, own, restore, send, url }) {
    yield* restore(sample, own.projectId)
    const request = requestOf(sample, own.token)
    const answer = yield* send(request)
    assert.strictEqual(answer.status, sample.status)
    for (const revision of revisions) {
      const result = yield* callTool(url, own.token, name, argumentsOf(sample, request), revision)
      assertSame(result, answer, `${name} ${revision}`)
    }
  })

  walkMutations(
    "shares its keys with the operation: each replays the answer of the other",
    function* (sample, { name, own, restore, send, url }) {
      for (const byToolFirst of [false, true]) {
        yield* restore(sample, own.projectId)
        const request = requestOf(sample, own.token, { key: newKey() })
        const call = callTool(url, own.token, name, argumentsOf(sample, request))
        const first = byToolFirst ? (yield* call).structuredContent : (yield* send(request)).json
        const answer = yield* send(request)
        assert.strictEqual(answer.status, sample.status, answer.text)
        assert.strictEqual(answer.headers["idempotent-replayed"], "true")
        assertSame(yield* call, answer, name)
        const { signingSecret: _, ...receipt }: Record<string, unknown> = JSON.parse(JSON.stringify(first))
        assert.deepStrictEqual(receipt, answer.json)
      }
    }
  )

  walk(
    "answers the problems of the operation, with its arguments as the locations",
    function* (sample, { name, own, restore, url }) {
      yield* restore(sample, own.projectId)
      const test = Effect.fnUntraced(function* (change: Change) {
        const request = requestOf(sample, own.token, change)
        const answer = yield* send(url, request)
        assert.isAtLeast(answer.status, 400, `${request.path} ${JSON.stringify(change)}`)
        const result = yield* callTool(url, own.token, name, argumentsOf(sample, request))
        assertSame(result, answer, `${request.path} ${JSON.stringify(change)}`)
      })
      yield* each(faultsOf(sample), test)
    }
  )

  walk(
    "is refused like the operation without scope, module, membership or room in its bucket",
    function* (sample, { issue, name, own, seed, url }) {
      const modules = allModules.filter((module) => module !== sample.module)
      const empty = yield* seed({ project: { rateLimits: { [sample.policy]: { limit: 1, windowSeconds: 3600 } } } })
      const tokens = {
        ...(isScoped(sample)
          ? {
              scope: yield* issue(own.projectId, { scopes: otherScopes(sample) }),
              module: (yield* seed({ project: { modules } })).token
            }
          : {}),
        entitlement: (yield* seed({ project: { entitlements: [] } })).token,
        bucket: empty.token
      }
      yield* send(url, requestOf(sample, empty.token))
      for (const [what, token] of Object.entries(tokens)) {
        const request = requestOf(sample, token)
        const answer = yield* send(url, request)
        assert.isAtLeast(answer.status, 400, what)
        assertSame(yield* callTool(url, token, name, argumentsOf(sample, request)), answer, `${name} ${what}`)
        if (what === "bucket") continue
        const { result } = rpcOf(yield* send(url, mcpRequest(token, "tools/list", {})))
        assert.notInclude(JSON.stringify(result), `"name":"${name}"`, what)
      }
    }
  )

  walk("refuses an argument whose name no parameter could have", function* (sample, { name, own, url }) {
    const given = argumentsOf(sample, requestOf(sample, own.token))
    const { structuredContent } = yield* callTool(url, own.token, name, { ...given, "a\u0000": "1" })
    assert.deepStrictEqual(Object(structuredContent).errors, {
      arguments: ["has an argument whose name must not contain U+0000 or an unpaired surrogate"]
    })
  })

  walk(
    "says that a member of the body belongs under body, and what the arguments are",
    function* (sample, { name, own, url }) {
      const { body, ...given } = argumentsOf(sample, requestOf(sample, own.token))
      const member = Object.keys(sample.body ?? {}).find((member) => member !== "body")
      const wrong = {
        ...given,
        ...(sample.body === undefined ? {} : { body }),
        surprise: 1,
        ...(member === undefined ? {} : { [member]: "x" })
      }
      const { errors, detail } = Object((yield* callTool(url, own.token, name, wrong)).structuredContent)
      assert.match(String(errors.surprise), /^is not known here: (?:the arguments are |this tool has no arguments)/)
      assert.include(detail, "surprise")
      if (member !== undefined && !(member in given)) assert.deepStrictEqual(errors[member], ["belongs under body"])
    }
  )

  walk("takes an argument that is null or empty as absent", function* (sample, { name, own, restore, url }) {
    for (const nothing of [null, ""]) {
      yield* restore(sample, own.projectId)
      const given = argumentsOf(sample, requestOf(sample, own.token))
      const absent = Object.fromEntries(["limit", "cursor", "status"].map((argument) => [argument, nothing]))
      const { isError, structuredContent } = yield* callTool(url, own.token, name, { ...absent, ...given })
      assert.isFalse(isError, JSON.stringify(structuredContent))
      for (const argument of [...Object.keys(sample.params ?? {}), ...(sample.body === undefined ? [] : ["body"])]) {
        const without = yield* callTool(url, own.token, name, { ...given, [argument]: nothing })
        assert.deepStrictEqual(without.structuredContent["errors"], { [argument]: ["is required"] })
      }
    }
  })

  walkBodies(
    "reads a body that is the JSON text of an object as the object",
    function* (sample, { name, own, restore, url }) {
      yield* restore(sample, own.projectId)
      const given = argumentsOf(sample, requestOf(sample, own.token))
      const asText = (body: unknown) => callTool(url, own.token, name, { ...given, body })
      const { isError, structuredContent } = yield* asText(JSON.stringify(sample.body))
      assert.isFalse(isError, JSON.stringify(structuredContent))
      for (const body of ["{", "[]", "text", JSON.stringify(JSON.stringify(sample.body))]) {
        const refused = yield* asText(body)
        assert.deepStrictEqual(refused.structuredContent["errors"], { body: ["must be an object"] }, body)
      }
    }
  )

  it.effect(
    "is listed with the name of its operation, all of them in at most 12,000 tokens of four characters",
    function* () {
      const { url } = yield* TestServer
      const { own } = yield* World
      const answer = yield* send(url, mcpRequest(own.token, "tools/list", {}))
      const tools: ReadonlyArray<Record<string, unknown>> = JSON.parse(JSON.stringify(rpcOf(answer).result?.["tools"]))
      assert.deepStrictEqual(tools.map(({ name }) => String(name)).toSorted(), Object.keys(samples).toSorted())
      assert.isAtMost(JSON.stringify(tools).length / 4, 12_000)
      const reference: Reference = JSON.parse((yield* send(url, { path: "/openapi.json" })).text)
      const described = new Map(
        Object.values(reference.paths).flatMap((path) =>
          Object.values(path).map((operation) => [operation.operationId, operation] as const)
        )
      )
      for (const { annotations, description, inputSchema, name, ...rest } of tools) {
        const sample = samples[String(name)]
        // It begins with the first sentence of the reference, and has the scope.
        const { description: told = "", summary } = described.get(String(name)) ?? {}
        const [when = ""] = told.split(/(?<=\.)\s/)
        assert.isNotEmpty(when, String(name))
        assert.isTrue(String(description).startsWith(`${when} `), `${String(name)}: ${when}`)
        assert.include(description, sample?.scope === null ? "Scope: none." : `Scope: \`${sample?.scope}\`.`)
        assert.isAtMost(String(description).length, 240, String(name))
        assert.isFalse("outputSchema" in rest)
        assert.deepStrictEqual(annotations, {
          title: summary,
          readOnlyHint: sample?.policy === "read",
          destructiveHint: /^(?:patch|put|upsert|delete|erase|rate|configure|rotate|batch)/.test(String(name)),
          ...(sample?.key === undefined ? {} : { idempotentHint: true }),
          openWorldHint: name === "sendMessage"
        })
        const schema: {
          properties: Record<string, { description?: string; properties?: object }>
          required?: ReadonlyArray<string>
        } = JSON.parse(JSON.stringify(inputSchema))
        assert.notInclude(JSON.stringify(inputSchema), '"ZWG"')
        const inBody = Object.keys({ ...schema.properties["body"]?.properties })
        assert.includeMembers(inBody, Object.keys(sample?.body ?? {}), String(name))
        assert.strictEqual(schema.required?.includes("idempotencyKey") === true, sample?.key !== undefined)
        const expected = [
          ...Object.keys(sample?.params ?? {}),
          ...Object.keys(sample?.query ?? {}),
          ...(sample?.body === undefined ? [] : ["body"]),
          ...(sample?.key === undefined ? [] : ["idempotencyKey"])
        ]
        assert.deepStrictEqual(Object.keys(schema.properties).toSorted(), expected.toSorted())
        for (const [argument, { description }] of Object.entries(schema.properties)) {
          if (argument !== "body") assert.isString(description, `${String(name)} ${argument}`)
        }
      }
    }
  )

  it.effect("takes a parameter that is a number as a number, where HTTP has text", function* () {
    const { url } = yield* TestServer
    const { own } = yield* World
    const result = yield* callTool(url, own.token, "listClients", { limit: 1 })
    assert.isFalse(result.isError)
    for (const limit of [0, 1.5, 1e21, true, ["1"], {}]) {
      const answer = yield* send(
        url,
        mcpRequest(own.token, "tools/call", { name: "listClients", arguments: { limit } })
      )
      const { isError, structuredContent } = resultOf(answer)
      assert.isTrue(isError)
      assert.deepStrictEqual(Object.keys(structuredContent["errors"] ?? {}), ["limit"])
    }
  })
})
