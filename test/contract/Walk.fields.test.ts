/** Accepted and refused values of each body member and query parameter (contract §2, §7 to §10). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Predicate, Schema } from "effect"
import { OpenApi } from "effect/http-api"
import { Api } from "../../src/api/Api.ts"
import { completeDocument } from "../../src/api/document/Document.ts"
import {
  addressesOf,
  clientOf,
  codeOf,
  dealOf,
  faultsOf,
  notePageOf,
  problemOf,
  receiptOf
} from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { type Seeded, TestServer } from "../support/TestServer.ts"
import { commands, fields } from "./Fields.ts"
import type { Field } from "./FieldValues.ts"
import { type Change, queryOf, requestOf } from "./Requests.ts"
import type { Sample } from "./Sample.ts"
import { samples, World } from "./Samples.ts"

// The fields in the OpenAPI document

const Referring = Schema.Struct({ $ref: Schema.optionalKey(Schema.String) })
const Properties = Schema.Record(Schema.String, Schema.Unknown)
const Shape = Schema.Struct({
  anyOf: Schema.optionalKey(Schema.Array(Schema.Unknown)),
  properties: Schema.optionalKey(Properties)
})
const Variant = Schema.Struct({ operation: Schema.Struct({ enum: Schema.Tuple([Schema.String]) }) })
const Operation = Schema.Struct({
  operationId: Schema.String,
  parameters: Schema.Array(Schema.Struct({ in: Schema.String, name: Schema.String })),
  requestBody: Schema.optionalKey(
    Schema.Struct({ content: Schema.Struct({ "application/json": Schema.Struct({ schema: Schema.Unknown }) }) })
  )
})
const Document = Schema.Struct({
  paths: Schema.Record(Schema.String, Schema.Record(Schema.String, Operation)),
  components: Schema.Struct({ schemas: Properties })
})

const describedFields = () => {
  const { components, paths } = Schema.decodeUnknownSync(Document)(OpenApi.fromApi(completeDocument(Api)))
  const shapeOf = (schema: unknown) => {
    const { $ref } = Schema.decodeUnknownSync(Referring)(schema)
    return Schema.decodeUnknownSync(Shape)(
      $ref === undefined ? schema : components.schemas[$ref.slice("#/components/schemas/".length)]
    )
  }
  const locationsIn = (schema: unknown, at: string): ReadonlyArray<string> =>
    Object.entries(shapeOf(schema).properties ?? {}).flatMap(([name, member]) => [
      `${at}/${name}`,
      ...locationsIn(member, `${at}/${name}`)
    ])
  return Object.values(paths).flatMap((methods) =>
    Object.values(methods).flatMap(({ operationId: name, parameters, requestBody }) => {
      const schema = requestBody?.content["application/json"].schema
      const variants = schema === undefined ? [] : shapeOf(schema).anyOf?.map((variant) => [variant, true] as const)
      return [
        ...parameters.flatMap((parameter) => (parameter.in === "query" ? [`${name} query/${parameter.name}`] : [])),
        ...(variants ?? [[schema, false] as const]).flatMap(([variant, isOneOfSome]) => {
          const properties = shapeOf(variant).properties
          const command = isOneOfSome ? ` ${Schema.decodeUnknownSync(Variant)(properties).operation.enum[0]}` : ""
          return locationsIn(variant, "body").map((location) => `${name}${command} ${location}`)
        })
      ]
    })
  )
}

// Requests with one value in place of another

type Members = Readonly<Record<string, unknown>>

const put = (members: Members, [name = "", ...path]: ReadonlyArray<string>, value: unknown): Members => {
  if (path.length === 0) return { ...members, [name]: value }
  const inner = Schema.decodeUnknownSync(Properties)(members[name])
  return { ...members, [name]: put(inner, path, value) }
}

/** Returns the smallest good body of an operation or of one command of a campaign. */
const smallest = ({ body = {}, required = [] }: Sample, command: string | undefined) =>
  command === undefined
    ? Object.fromEntries(required.map((name) => [name, body[name]]))
    : { operation: command, ...commands[command] }

const changeTo = (
  sample: Sample,
  command: string | undefined,
  location: string,
  value: unknown,
  beside: Members = {}
): Change => {
  const [slot, ...path] = location.split("/")
  if (slot === "body") return { json: put({ ...smallest(sample, command), ...beside }, path, value) }
  return {
    query: new URLSearchParams({ ...Object.fromEntries(queryOf(sample)), [path[0] ?? ""]: String(value) }).toString()
  }
}

type Read = (server: TestServer["Service"], own: Seeded, answer: Answer) => Effect.Effect<object>

const idOf = (answer: Answer) => receiptOf(answer, answer.status === 201 ? 201 : 200).resourceId

const client: Read = ({ send }, { token }, answer) =>
  Effect.map(send({ path: `/api/v1/developer/crm/clients/${idOf(answer)}`, token }), clientOf)

const deal: Read = ({ send }, { token }, answer) =>
  Effect.map(send({ path: `/api/v1/developer/crm/deals/${idOf(answer)}`, token }), dealOf)

const note: Read = ({ send }, { token }, answer) =>
  Effect.map(
    send({ path: "/api/v1/developer/crm/deals/deal_own/notes?limit=100", token }),
    (page) => notePageOf(page).items.find(({ id }) => id === idOf(answer)) ?? assert.fail("The note is not listed")
  )

const rating: Read = ({ sql }, { projectId }) =>
  sql<object>`
    SELECT rating_score AS score, rating_comment AS comment
    FROM tickets WHERE project_id = ${projectId} AND id = 'tic_own'`.pipe(
    Effect.map(([ticket]) => ticket ?? assert.fail("There is no ticket")),
    Effect.orDie
  )

const addresses: Read = ({ send }, { token }, answer) =>
  Effect.map(send({ path: `/api/v1/developer/crm/clients/${idOf(answer)}/addresses`, token }), addressesOf)

/** Functions that read the record that an operation has created or changed, by another operation or by SQL. */
const readers: Readonly<Record<string, Read>> = {
  createClient: client,
  patchClient: client,
  upsertClient: client,
  putClientAddresses: addresses,
  upsertDeal: deal,
  createDeal: deal,
  patchDeal: deal,
  createNote: note,
  patchNote: note,
  rateTicket: rating
}

const rows = Object.entries(fields).flatMap(([operation, locations]) => {
  const [name = "", command] = operation.split(" ")
  const sample = samples[name] ?? assert.fail(`There is no operation ${name}`)
  return Object.entries(locations).map(([location, field]) => ({ operation, name, command, sample, location, field }))
})

/** Whether a field takes null, if only without the members that its other values require. */
const isNullable = ({ beside, good }: Field) => beside !== undefined || good.includes(null)

layer(World.layer, { excludeTestServices: true })("the table of fields", (it) => {
  it.effect("has every body member and query parameter of the OpenAPI document", () =>
    Effect.sync(() => {
      const listed = rows.map(({ location, operation }) => `${operation} ${location}`)
      const described = describedFields().filter((field) => !field.endsWith(" body/operation"))
      assert.deepStrictEqual(listed.toSorted(), described.toSorted())
    })
  )

  for (const { command, field, location, name, operation, sample } of rows) {
    const read = readers[name]

    it.effect(`${operation} takes ${location} within its bounds, and stores it unchanged`, function* () {
      const server = yield* TestServer
      const { ask, seed } = yield* World
      const own = yield* seed()
      for (const value of field.good) {
        const answer = yield* ask(sample, own, changeTo(sample, command, location, value, field.beside))
        assert.notStrictEqual(codeOf(answer), "validation_failed", `${JSON.stringify(value)} ${answer.text}`)
        assert.isBelow(answer.status, 500)
        if (read === undefined || location === "body/expectedVersion") continue
        const expected = { ...field.beside, [location.slice("body/".length)]: value }
        assert.deepInclude(yield* read(server, own, answer), expected)
      }
    })

    it.effect(`${operation} refuses ${location} outside its bounds, at its location and without effect`, function* () {
      const { send, sql } = yield* TestServer
      const { ask, own } = yield* World
      const keys = Effect.orDie(sql`SELECT count(*) FROM idempotency_keys WHERE project_id = ${own.projectId}`)
      const before = yield* keys
      const refuse = Effect.fnUntraced(function* ([value, below]: (typeof field.bad)[number]) {
        const change = changeTo(sample, command, location, value, field.beside)
        const answer = yield* send(requestOf(sample, own.token, change))
        assert.deepStrictEqual(faultsOf(answer), [location + below], JSON.stringify(value))
        return problemOf(answer, 400, "validation_failed").errors?.[location] ?? []
      })
      const faults = (yield* Effect.forEach(field.bad, refuse, { concurrency: 8 })).flat()
      // A caller who follows the message of a value has no further fault.
      const rules = new Set(faults.filter((message) => message.startsWith("must be ")))
      if (!field.good.some(Predicate.isObject) && !field.good.some(Array.isArray)) {
        assert.strictEqual(rules.size, 1, [...rules].join("\n"))
        assert.strictEqual(isNullable(field), [...rules].join().endsWith(", or null"), [...rules].join())
      }
      assert.deepStrictEqual(yield* keys, before)
      assert.notStrictEqual(codeOf(yield* ask(sample, own)), "validation_failed")
    })
  }

  const bodyMembers = (of: string) => Object.keys(fields[of] ?? {}).flatMap((at) => /^body\/(\w+)$/.exec(at)?.[1] ?? [])
  const readOnly = ["id", "dealId", "authorKeyId", "by", "version", "createdAt", "updatedAt", "archivedAt", "closedAt"]
  const every = new Set([...readOnly, ...Object.keys(fields).flatMap(bodyMembers)])

  // Some commands of campaigns have no members of their own.
  const bodied = rows.filter(({ sample }) => sample.body !== undefined).map(({ operation }) => operation)
  for (const operation of new Set([...bodied, ...Object.keys(commands).map((name) => `patchCampaign ${name}`)])) {
    it.effect(
      `${operation} requires its members, and refuses those of others and those that are only read`,
      function* () {
        const { send } = yield* TestServer
        const { own } = yield* World
        const [name = "", command] = operation.split(" ")
        const sample = samples[name] ?? assert.fail(name)
        for (const member of Object.keys(smallest(sample, command)).filter(
          (member) => member !== sample.discriminator
        )) {
          const json = { ...smallest(sample, command), [member]: undefined }
          assert.include(faultsOf(yield* send(requestOf(sample, own.token, { json }))), `body/${member}`, member)
        }
        const others = [...every].filter((member) => !bodyMembers(operation).includes(member))
        const surplus = Object.fromEntries(others.map((member) => [member, null]))
        const answer = yield* send(requestOf(sample, own.token, { json: { ...smallest(sample, command), ...surplus } }))
        const { errors = {} } = problemOf(answer, 400, "validation_failed")
        assert.sameMembers(
          Object.keys(errors),
          others.map((member) => `body/${member}`)
        )
        for (const [message = ""] of Object.values(errors)) {
          const [, known = ""] = /^is not known here: the known members are (.*)$/.exec(message) ?? []
          assert.sameMembers(known.split(", "), [sample.discriminator ?? [], ...bodyMembers(operation)].flat())
        }
      }
    )
  }
})
