/** Every operation: its credentials and rights, its path and methods, and missing records (contract §1 to §4). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { modules, scopes } from "../../src/api/Access.ts"
import { assertUnlimited, problemOf, remainingOf, requestIdOf } from "../support/ContractAnswers.ts"
import { type Change, newKey, referring, requestOf, tokenOf } from "./Requests.ts"
import { missingOf, type Reference } from "./Sample.ts"
import { receiptOfSample, samples, World } from "./Samples.ts"
import { each, hasReferences, isMutation, isScoped, otherScopes, walkingOver } from "./Walk.support.ts"

const operations = Object.entries(samples)

const otherThan = (character: string | undefined) => (character === "a" ? "b" : "a")

/** Returns every part of an answer that could distinguish it from another with the same `x-request-id`. */
const looksOf = ({
  headers,
  status,
  text
}: {
  readonly headers: object
  readonly status: number
  readonly text: string
}) => {
  const { date: _, ratelimit: __, ...rest } = Object.fromEntries(Object.entries(headers))
  return { status, text, headers: rest }
}

const fixedId = { "x-request-id": "walk-1" }

layer(World.layer, { excludeTestServices: true })("every operation", (it) => {
  const walk = walkingOver(it)
  const walkScoped = walkingOver(it, isScoped)
  const walkReferences = walkingOver(it, hasReferences)
  const walkMutations = walkingOver(it, isMutation)
  const walkExpecting = walkingOver(it, ({ refusals = [] }) => refusals.includes("project_mismatch"))
  const walkGets = walkingOver(it, ({ method }) => method === "GET")

  walk("succeeds with a good request, behind the limiter of its policy", function* (sample, { ask, own }) {
    const answer = yield* ask(sample, own)
    assert.strictEqual(answer.status, sample.status, answer.text)
    requestIdOf(answer)
    remainingOf(answer, sample.policy)
  })

  walk("requires a credential", function* (sample, { send }) {
    const answer = yield* send(requestOf(sample, undefined))
    problemOf(answer, 401, "credential_missing")
    assert.strictEqual(answer.headers["www-authenticate"], 'Bearer realm="developer-api"')
    assertUnlimited(answer)
  })

  walk("refuses every bad credential alike", function* (sample, { issue, own, revoke, send }) {
    const { token } = own
    const expired = yield* issue(own.projectId, { expiresIn: 0 })
    const revoked = yield* issue(own.projectId)
    yield* revoke(revoked)
    const credentials = {
      "a bare Bearer": "Bearer",
      "no scheme": token,
      "the scheme Basic": `Basic ${token}`,
      "a scheme of six letters": `Digest ${token}`,
      "a scheme that starts with Bearer": `Bearerx ${token}`,
      "no space": `Bearer${token}`,
      nonsense: "Bearer nonsense",
      "a prefix": "Bearer dk_",
      "two tokens": `Bearer ${token} ${token}`,
      "a list": `Bearer ${token}, Bearer ${token}`,
      "a longer token": `Bearer ${token}0`,
      "a shorter token": `Bearer ${token.slice(0, -1)}`,
      "another letter case": `Bearer ${token.toLowerCase()}`,
      "a wrong checksum": `Bearer ${token.slice(0, -1)}${otherThan(token.at(-1))}`,
      "an unknown key": `Bearer ${tokenOf(`dk_${"0".repeat(12)}_${"0".repeat(32)}`)}`,
      "a wrong secret": `Bearer ${tokenOf(`${token.slice(0, 16)}${"0".repeat(32)}`)}`,
      "an expired key": `Bearer ${expired}`,
      "a revoked key": `Bearer ${revoked}`
    }
    const looks = new Map<string, string>()
    const test = Effect.fnUntraced(function* ([what, authorization]: readonly [string, string]) {
      const answer = yield* send(requestOf(sample, undefined, { headers: { ...fixedId, authorization } }))
      assert.strictEqual(answer.status, 401, what)
      problemOf(answer, 401, "credential_invalid")
      assert.strictEqual(
        answer.headers["www-authenticate"],
        'Bearer realm="developer-api", error="invalid_token"',
        what
      )
      assertUnlimited(answer)
      looks.set(JSON.stringify(looksOf(answer)), what)
    })
    yield* each(Object.entries(credentials), test)
    assert.strictEqual(looks.size, 1, [...looks.values()].join(", "))
  })

  walk("takes the scheme in any letter case", function* (sample, { ask, own }) {
    for (const scheme of ["bearer", "BEARER", "bEARER"]) {
      const headers = { authorization: `${scheme} ${own.token}` }
      assert.strictEqual((yield* ask(sample, { ...own, token: undefined }, { headers })).status, sample.status)
    }
  })

  walkScoped("requires its scope and no other", function* (sample, { ask, issue, own, send }) {
    const others = yield* issue(own.projectId, { scopes: otherScopes(sample) })
    const answer = yield* send(requestOf(sample, others))
    assert.strictEqual(problemOf(answer, 403, "scope_missing").requiredScope, sample.scope)
    assert.strictEqual(answer.headers["www-authenticate"], `Bearer error="insufficient_scope", scope="${sample.scope}"`)
    assertUnlimited(answer)
    const exact = yield* issue(own.projectId, { scopes: scopes.filter((scope) => scope === sample.scope) })
    assert.strictEqual((yield* ask(sample, { ...own, token: exact })).status, sample.status)
  })

  walkScoped("requires its module and no other", function* (sample, { ask, seed, send }) {
    const without = yield* seed({ project: { modules: modules.filter((module) => module !== sample.module) } })
    const answer = yield* send(requestOf(sample, without.token))
    problemOf(answer, 403, "module_unavailable")
    assertUnlimited(answer)
    const alone = yield* seed({ project: { modules: modules.filter((module) => module === sample.module) } })
    assert.strictEqual((yield* ask(sample, alone)).status, sample.status)
  })

  walk("requires the project's entitlement", function* (sample, { seed, send }) {
    const { token } = yield* seed({ project: { entitlements: ["something_else"] } })
    const answer = yield* send(requestOf(sample, token))
    problemOf(answer, 403, "entitlement_unavailable")
    assertUnlimited(answer)
  })

  walk(
    "requires an active member for a key that is bound to one",
    function* (sample, { apply, ask, issue, seed, send }) {
      const { projectId } = yield* seed()
      const token = yield* issue(projectId, { memberId: "mem_own" })
      yield* apply(projectId, { members: [{ id: "mem_own", name: "Own", active: false }] })
      const answer = yield* send(requestOf(sample, token))
      problemOf(answer, 403, "membership_unavailable")
      assertUnlimited(answer)

      yield* apply(projectId, { members: [{ id: "mem_own", name: "Own", active: true }] })
      const active = yield* issue(projectId, { memberId: "mem_own" })
      assert.strictEqual((yield* ask(sample, { projectId, token: active })).status, sample.status)
    }
  )

  walkReferences(
    "answers the same for another project's record and a missing one, with a detail",
    function* (sample, { ask, own }) {
      const references = sample.references ?? []
      const assertAlike = Effect.fnUntraced(function* (of: ReadonlyArray<Reference>, by: Reference) {
        const [foreign, missing] = yield* Effect.forEach(
          [({ foreign }: Reference) => foreign, missingOf],
          Effect.fnUntraced(function* (idOf) {
            // Only the id is wrong.
            const answer = yield* ask(sample, own, { ...referring(sample, of, idOf), headers: fixedId })
            assert.isString(problemOf(answer, by.status ?? 404, by.code).detail)
            remainingOf(answer, sample.policy)
            const text = of.reduce((text, reference) => text.replaceAll(idOf(reference), "<id>"), answer.text)
            return looksOf({ ...answer, text })
          })
        )
        assert.deepStrictEqual(foreign, missing, of.map(({ at }) => at.join("/")).join())
      })
      for (const reference of references) yield* assertAlike([reference], reference)
      // If all records in the path are the other project's, the first of them is reported missing.
      const inPath = references.filter(({ at: [slot] }) => slot === "path")
      for (const upper of inPath.slice(0, 1)) yield* assertAlike(inPath, upper)
    }
  )

  walkExpecting(
    "answers project_mismatch before it looks for anything if another project is expected",
    function* (sample, { ask, own, seed }) {
      const expecting = (expectedProjectId: string): Change =>
        sample.body === undefined
          ? { query: new URLSearchParams({ expectedProjectId }).toString() }
          : { json: { ...sample.body, expectedProjectId } }
      const other = yield* seed()
      for (const id of [other.projectId, "nobody", ` ${own.projectId}`, own.projectId.toUpperCase()]) {
        problemOf(yield* ask(sample, own, expecting(id)), 400, "project_mismatch")
        for (const reference of sample.references ?? []) {
          const change = { ...referring(sample, [reference], missingOf), ...expecting(id) }
          problemOf(yield* ask(sample, own, change), 400, "project_mismatch")
        }
      }
      assert.strictEqual((yield* ask(sample, own, expecting(own.projectId))).status, sample.status)
      if (sample.key === undefined) return
      const key = newKey()
      const wrong = { ...expecting("nobody"), key }
      problemOf(yield* ask(sample, own, wrong), 400, "project_mismatch")
      // The refused request left its key free. A key that is known does not matter, either.
      assert.isFalse(receiptOfSample(sample, yield* ask(sample, own, { key })).replayed)
      problemOf(yield* ask(sample, own, wrong), 400, "project_mismatch")
    }
  )

  walk("is not found under another version or prefix, or in another letter case", function* (sample, { own, send }) {
    const request = requestOf(sample, own.token)
    const [path = "", query] = request.path.split("?")
    const others = [
      path.replace("/developer/", "/Developer/"),
      path.replace("/v1/", "/v2/"),
      path.replace("/api/", "/")
    ]
    yield* each(others, (other) =>
      each([own.token, undefined], (token) =>
        Effect.map(send({ ...request, token, path: query === undefined ? other : `${other}?${query}` }), (answer) => {
          problemOf(answer, 404, "route_not_found")
          assertUnlimited(answer)
        })
      )
    )
  })

  walk("answers method_not_allowed with the methods of its path", function* (sample, { own, send }) {
    const { path } = requestOf(sample, undefined, { query: "" })
    const of = (matching: typeof operations) => [
      ...new Set(matching.flatMap(([, { method }]) => (method === "GET" ? ["GET", "HEAD"] : [method])))
    ]
    // A segment of this path can be an id in another one, whose methods are served, but not those of the path.
    const served = operations.filter(([, { path: template }]) =>
      new RegExp(`^/api${template.replace(/\{\w+\}/g, "[^/]+")}$`).test(path)
    )
    const literal = served.filter(([, { path: template }]) => `/api${template}` === path)
    const known = of(literal.length > 0 ? literal : served)
    for (const method of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]) {
      if (of(served).includes(method)) continue
      for (const token of [own.token, undefined]) {
        const answer = yield* send({ method, path, token })
        if (method === "HEAD") assert.strictEqual(answer.status, 405)
        else problemOf(answer, 405, "method_not_allowed")
        assert.deepStrictEqual(answer.headers.allow?.split(/, */).toSorted(), known.toSorted(), method)
        assert.notProperty(answer.headers, "access-control-allow-origin")
        assertUnlimited(answer)
        requestIdOf(answer)
      }
    }
  })

  walkGets("answers HEAD like GET without the body", function* (sample, { own, send }) {
    const missing = sample.references?.map(({ at, foreign }) => ({ params: { [at[1]]: foreign } })) ?? []
    const requests = [
      requestOf(sample, own.token, { headers: fixedId }),
      requestOf(sample, undefined, { headers: fixedId }),
      requestOf(sample, own.token, { headers: fixedId, query: "surprise=1" }),
      ...missing.map((change) => requestOf(sample, own.token, { ...change, headers: fixedId }))
    ]
    for (const request of requests) {
      const get = yield* send(request)
      const head = yield* send({ ...request, method: "HEAD" })
      assert.strictEqual(head.text, "")
      assert.deepStrictEqual(looksOf({ ...head, text: "" }), looksOf({ ...get, text: "" }))
      if (get.headers.ratelimit !== undefined) remainingOf(head, sample.policy)
    }
  })

  walk("echoes a well-formed x-request-id, and generates one otherwise", function* (sample, { own, send }) {
    for (const token of [own.token, undefined]) {
      for (const id of ["a", "A-z_0.9", "x".repeat(128)]) {
        const answer = yield* send(requestOf(sample, token, { headers: { "x-request-id": id } }))
        assert.strictEqual(requestIdOf(answer), id)
      }
      for (const id of ["", "x".repeat(129), "a b", "a,b", "a/b", "ä"]) {
        const answer = yield* send(requestOf(sample, token, { headers: { "x-request-id": id } }))
        assert.match(requestIdOf(answer), /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
      }
    }
  })

  walkMutations("requires a well-formed idempotency key", function* (sample, { ask, own, seed, send }) {
    const malformed =
      sample.key === "record"
        ? ["", "1234567", "x".repeat(161), "-2345678", ".2345678", "1234567/", "1234 678", "1234567é", "12345678, 9"]
        : ["", "x".repeat(161), "a b", "é"]
    for (const key of [undefined, ...malformed]) {
      const answer = yield* send(requestOf(sample, own.token, { key }))
      const { errors } = problemOf(answer, 400, "validation_failed")
      assert.deepStrictEqual(Object.keys(errors ?? {}), ["header/idempotency-key"], String(key))
      remainingOf(answer, sample.policy)
    }
    // Short keys are few, so this project is a new one.
    const fresh = yield* seed()
    const [shortest, filler] = sample.key === "record" ? ["a2345678", "0._:-A"] : ["!", "~/\"'"]
    for (const key of [shortest, newKey().padEnd(160, filler)]) {
      const answer = yield* ask(sample, fresh, { key })
      assert.strictEqual(answer.status, sample.status, `${key} ${answer.text}`)
    }
  })
})
