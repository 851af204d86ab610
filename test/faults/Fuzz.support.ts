/** Requests for fuzzing: parts from the samples and the schemas of the endpoints, with mutations of their values and their text. */
import { Arbitrary, Effect, Schema } from "effect"
import { HttpApi } from "effect/http-api"
import * as fc from "fast-check"
import { Api } from "../../src/api/Api.ts"
import { isSelfContained } from "../../src/api/schema/Faults.ts"
import { commands } from "../contract/Fields.ts"
import { queryOf } from "../contract/Requests.ts"
import type { Sample } from "../contract/Sample.ts"
import { samples } from "../contract/Samples.ts"
import type { Request } from "../support/ContractHttp.ts"
import { hostileBodies } from "../support/HostileBodies.ts"
import {
  anyText,
  edit,
  edited,
  isMembers,
  jsonPieces,
  type Members,
  mutated,
  mutation
} from "./Fuzz.mutations.support.ts"

/** Returns values of a schema; none if the schema has rules that generated values do not satisfy. */
const described = (schema: Schema.Top | undefined, seed: number): ReadonlyArray<Members> => {
  if (schema === undefined || !isSelfContained(schema)) return []
  return Effect.runSync(
    Arbitrary.sampleEffect(Arbitrary.schema(schema), { count: 200, seed }).pipe(
      Effect.map((values) => values.filter((value) => isMembers(value))),
      Effect.orElseSucceed(() => [])
    )
  )
}

/** An operation with values for its parts. */
interface Target {
  readonly sample: Sample
  readonly params: ReadonlyArray<Members>
  readonly queries: ReadonlyArray<Members>
  readonly bodies: ReadonlyArray<Members>
}

const targetsOf = (seed: number): ReadonlyArray<Target> => {
  const targets: Array<Target> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      const sample = samples[endpoint.identifier]
      if (sample === undefined) throw new Error(`${endpoint.identifier} has no sample`)
      const { body, params = {}, references = [] } = sample
      const foreign = references.map((reference) => reference.foreign)
      const good = [
        ...(body === undefined ? [] : [body]),
        ...(sample.discriminator === undefined
          ? []
          : Object.entries(commands).map(([operation, members]) => ({ operation, ...members })))
      ]
      const schemas = [...endpoint.payload.values()].flatMap((payload) => payload.schemas)
      targets.push({
        sample,
        params: [
          params,
          ...foreign.map((id) => Object.fromEntries(Object.keys(params).map((name) => [name, id]))),
          ...described(endpoint.params, seed)
        ],
        queries: [Object.fromEntries(queryOf(sample)), ...described(endpoint.query, seed)],
        bodies: [...good, ...schemas.flatMap((schema) => described(schema, seed))]
      })
    }
  })
  return targets
}

/** Chooses the first value, which is valid, in half of the cases. */
const oftenFirst = <A>([first, ...others]: ReadonlyArray<A>, none: A): fc.Arbitrary<A> =>
  first === undefined
    ? fc.constant(none)
    : others.length === 0
      ? fc.constant(first)
      : fc.oneof(fc.constant(first), fc.constantFrom(...others))

const encoded = fc.oneof(
  anyText.map((text) => encodeURIComponent(text.toWellFormed())),
  fc.constantFrom("%00", "%FF", "%", "%2F", "..", "%2E%2E", "a%20b", "%ed%a0%80", "+")
)

const query = fc.array(
  fc.tuple(
    fc.oneof(
      fc.constantFrom("limit", "cursor", "status", "lifecycle", "expectedVersion", "expectedProjectId"),
      encoded
    ),
    encoded
  ),
  { maxLength: 3 }
)

/** A part of a target that is made to cost much. Its length leaves room in the header section. */
const hostilePart = fc
  .constantFrom(
    "%",
    "%25",
    "%2525",
    "%FF",
    "%2F",
    "%00",
    "+",
    "=",
    "&",
    "a&",
    "%&",
    "%FF&",
    "a=1&",
    "/a",
    "/%25",
    "/.."
  )
  .map((piece) => piece.repeat(13_000 / piece.length))

/** Characters that Node's client sends unchanged. */
const headerText = fc.oneof(
  fc.constantFrom(
    "",
    " ",
    "a",
    "a b",
    "x".repeat(161),
    "é",
    "\t",
    "%00",
    "1.0",
    "*/*",
    "identity",
    "gzip",
    "100-continue"
  ),
  fc.string({ unit: "binary", maxLength: 30 }).map((text) => text.replaceAll(/[^\t\u0020-\u007e\u00a0-\u00ff]/g, "."))
)

const header = fc.oneof(
  fc.tuple(
    fc.constantFrom("idempotency-key", "content-type", "x-request-id", "accept", "content-encoding", "traceparent"),
    headerText
  ),
  fc.tuple(fc.constantFrom("authorization"), headerText),
  fc.tuple(
    fc.constantFrom("content-type"),
    fc.constantFrom("text/plain", "application/json; charset=x", "APPLICATION/JSON")
  )
)

/** Returns undefined in `weight` of `weight + 1` cases, so that most requests are wrong in one or two parts. */
const rarely = <A>(arbitrary: fc.Arbitrary<A>, weight = 5) =>
  fc.oneof({ weight, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary })

const targets = targetsOf(1)

const part = (name: string, values: Members) => encodeURIComponent(String(values[name] ?? "").toWellFormed())

/** Generates requests of operations, with a token. */
const request = (token: string): fc.Arbitrary<Request> =>
  fc.constantFrom(...targets).chain(({ bodies, params, queries, sample }) =>
    fc
      .record({
        params: oftenFirst(params, {}),
        query: oftenFirst(queries, {}),
        body: oftenFirst(bodies, {}),
        mutations: fc.array(mutation, { maxLength: 2 }),
        id: rarely(fc.oneof({ weight: 20, arbitrary: encoded }, { weight: 1, arbitrary: hostilePart })),
        more: rarely(
          fc.oneof({ weight: 20, arbitrary: query }, { weight: 1, arbitrary: fc.tuple(fc.tuple(hostilePart)) })
        ),
        method: rarely(fc.constantFrom("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")),
        key: fc.oneof(
          { weight: 5, arbitrary: fc.uuid() },
          { weight: 1, arbitrary: fc.constantFrom("repeated-1", "repeated-2") }
        ),
        headers: rarely(fc.array(header, { minLength: 1, maxLength: 2 })),
        edits: rarely(fc.array(edit(jsonPieces), { minLength: 1, maxLength: 3 })),
        hostile: rarely(fc.constantFrom(...hostileBodies), 200),
        chunked: fc.boolean()
      })
      .map((chosen): Request => {
        const path = sample.path.replace(/\{(\w+)\}/g, (_, name: string) => chosen.id ?? part(name, chosen.params))
        const pairs = [
          ...Object.entries(chosen.query)
            .filter(([, member]) => member !== undefined)
            .map(([name, member]) => [name, encodeURIComponent(String(member).toWellFormed())]),
          ...(chosen.more ?? [])
        ].map((pair) => pair.join("="))
        const text = JSON.stringify(chosen.mutations.reduce(mutated, chosen.body)) ?? ""
        const method = chosen.method ?? sample.method
        const hasBody = sample.body !== undefined && method !== "HEAD" && method !== "GET"
        const body =
          chosen.hostile?.body ?? (chosen.edits === undefined ? text : edited(Buffer.from(text), chosen.edits))
        return {
          method,
          path: `/api${path}${pairs.length === 0 ? "" : `?${pairs.join("&")}`}`,
          token,
          ...(sample.key === undefined ? {} : { key: chosen.key }),
          ...(hasBody ? { body, chunked: chosen.chunked } : {}),
          headers: {
            ...(hasBody ? { "content-type": "application/json" } : {}),
            ...Object.fromEntries(chosen.headers ?? [])
          }
        }
      })
  )

/** Generates `count` requests, the same for the same seed. */
export const requestsOf = (token: string, seed: number, count: number): ReadonlyArray<Request> =>
  fc.sample(request(token), { seed, numRuns: count })
