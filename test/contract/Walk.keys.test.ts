/** Every mutation: the effects of its idempotency key (contract §5). */
import { assert, layer } from "../support/Vitest.ts"
import { faultsOf, problemOf } from "../support/ContractAnswers.ts"
import { startServer } from "../support/TestServer.ts"
import { atOnce } from "./Clients.support.ts"
import { fields } from "./Fields.ts"
import { newKey, queryOf, referring, requestOf } from "./Requests.ts"
import { missingOf, type Sample } from "./Sample.ts"
import { receiptOfSample, samples, World } from "./Samples.ts"
import { hasReferences, isMutation, walkingOver } from "./Walk.support.ts"

/** Returns JSON of the same meaning: members in reverse order, white space, and every character escaped. */
const rewritten = (value: unknown): string => {
  if (Array.isArray(value)) return `[ ${value.map(rewritten).join(" ,\n")} ]`
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value).toReversed()
    return `{\t${members.map(([name, member]) => `${rewritten(name)} : ${rewritten(member)}`).join(" , ")} }`
  }
  if (typeof value !== "string") return JSON.stringify(value)
  const escaped = [...Array(value.length).keys()].map((at) => value.charCodeAt(at).toString(16).padStart(4, "0"))
  return `"${escaped.map((code) => `\\u${code}`).join("")}"`
}

/** Returns a good value for each member of the body that differs from the sample's. */
const otherValuesOf = (sample: Sample, operation: string) =>
  Object.entries(sample.body ?? {}).flatMap(([name, value]) => {
    const { good = [] } = fields[operation]?.[`body/${name}`] ?? {}
    const other = good.find((each) => JSON.stringify(each) !== JSON.stringify(value))
    return other === undefined ? [] : [[name, other] as const]
  })

layer(World.layer, { excludeTestServices: true })("every operation", (it) => {
  const walkMutations = walkingOver(it, isMutation)
  const walkBodies = walkingOver(it, (sample) => isMutation(sample) && sample.body !== undefined)
  const walkReferences = walkingOver(it, (sample) => isMutation(sample) && hasReferences(sample))
  const walkReads = walkingOver(it, (sample) => !isMutation(sample))

  walkMutations(
    "checks the shape of the request before the idempotency key, and the key before the records",
    function* (sample, { ask, name, own, send }) {
      const key = newKey()
      const first = yield* ask(sample, own, { key })
      assert.strictEqual(first.status, sample.status)
      for (const change of [{ json: { surprise: 1 } }, { json: [] }]) {
        faultsOf(yield* send(requestOf(sample, own.token, { ...change, key })))
      }
      for (const [member, value] of otherValuesOf(sample, name)) {
        const json = { ...sample.body, [member]: value }
        problemOf(yield* send(requestOf(sample, own.token, { json, key })), 409, "idempotency_key_reused")
      }
      for (const reference of sample.references ?? []) {
        const change = { ...referring(sample, [reference], ({ foreign }) => foreign), key }
        problemOf(yield* send(requestOf(sample, own.token, change)), 409, "idempotency_key_reused")
      }
      for (const [name, value] of queryOf(sample)) {
        const query = new URLSearchParams({ ...Object.fromEntries(queryOf(sample)), [name]: `${value}0` }).toString()
        problemOf(yield* send(requestOf(sample, own.token, { query, key })), 409, "idempotency_key_reused")
      }
      assert.isTrue(receiptOfSample(sample, yield* send(requestOf(sample, own.token, { key }))).replayed)
    }
  )

  walkMutations(
    "refuses a key that is sent twice as a repeated header, and one with a comma",
    function* (sample, { ask, own }) {
      for (const key of [["repeated-1", "repeated-1"], "repeated-1, repeated-1"]) {
        const answer = yield* ask(sample, own, { key: undefined, headers: { "idempotency-key": key } })
        const { errors } = problemOf(answer, 400, "validation_failed")
        assert.deepStrictEqual(Object.keys(errors ?? {}), ["header/idempotency-key"])
      }
    }
  )

  walkMutations(
    "replays its answer to a key for every token of the project, and for no other project",
    function* (sample, { ask, issue, own, seed, send }) {
      const key = newKey()
      const first = yield* ask(sample, own, { key })
      const { replayed, ...receipt } = receiptOfSample(sample, first)
      assert.isFalse(replayed)
      for (const token of [own.token, yield* issue(own.projectId)]) {
        const again = yield* send(requestOf(sample, token, { key }))
        assert.deepStrictEqual(receiptOfSample(sample, again), { ...receipt, replayed: true })
        assert.strictEqual(again.text, first.text.replace(/,"signingSecret":"[^"]+"/, ""))
      }
      assert.isFalse(receiptOfSample(sample, yield* ask(sample, yield* seed(), { key })).replayed)
    }
  )

  walkMutations(
    "runs one of ten equal concurrent commands on two replicas, and replays its answer",
    function* (sample, { databaseUrl, own, restore, send }) {
      const replica = yield* startServer({ DATABASE_URL: databaseUrl }, "api")
      const request = requestOf(sample, own.token)
      for (const key of [newKey(), newKey(), newKey()]) {
        yield* restore(sample, own.projectId)
        const answers = yield* atOnce(10, (index) => (index % 2 === 0 ? send : replica.send)({ ...request, key }))
        const receipts = answers.map((answer) => receiptOfSample(sample, answer))
        assert.strictEqual(receipts.filter(({ replayed }) => !replayed).length, 1)
        assert.strictEqual(
          new Set(receipts.map(({ changed, resourceId, version }) => `${changed} ${resourceId} ${version}`)).size,
          1
        )
      }
    }
  )

  walkMutations("refuses its key to every other operation", function* (sample, { ask, own }) {
    const key = newKey()
    yield* ask(sample, own, { key })
    for (const other of Object.values(samples).filter(isMutation)) {
      if (other !== sample) problemOf(yield* ask(other, own, { key }), 409, "idempotency_key_reused")
    }
  })

  walkBodies("recognises a body by its meaning, however its JSON is written", function* (sample, { ask, own, send }) {
    const key = newKey()
    const first = receiptOfSample(sample, yield* ask(sample, own, { key }))
    const body = rewritten(sample.body)
    assert.notStrictEqual(body, JSON.stringify(sample.body))
    const again = receiptOfSample(sample, yield* send(requestOf(sample, own.token, { key, body })))
    assert.deepStrictEqual(again, { ...first, replayed: true })
  })

  walkReferences("leaves its key free when a record is missing", function* (sample, { ask, own }) {
    for (const reference of sample.references ?? []) {
      const key = newKey()
      const missing = { ...referring(sample, [reference], missingOf), key }
      for (const _ of [1, 2]) problemOf(yield* ask(sample, own, missing), reference.status ?? 404, reference.code)
      assert.isFalse(receiptOfSample(sample, yield* ask(sample, own, { key })).replayed)
    }
  })

  walkReads("ignores an idempotency key, as it is no mutation", function* (sample, { ask, own }) {
    for (const key of ["x", "a b", "x".repeat(200)]) {
      const answer = yield* ask(sample, own, { headers: { "idempotency-key": key } })
      assert.strictEqual(answer.status, sample.status)
      assert.notProperty(answer.headers, "idempotent-replayed")
    }
  })
})
