/**
 * Outbound webhooks: the URLs that a configure accepts as far as the text decides, signing secrets, and retries at the same time or of
 * others (contract §5, §10). `Webhooks.properties` tests the commands, and `faults/Secrets` where secrets must not appear.
 */
import * as fc from "fast-check"
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { problemOf, receiptOf, secretOf, unversionedReceiptOf } from "../support/ContractAnswers.ts"
import { secretKey, startServer, TestServer } from "../support/TestServer.ts"
import { atOnce } from "./Clients.support.ts"
import { newKey } from "./Requests.ts"
import {
  api,
  assertConflict,
  callsOf,
  created,
  type DeliveryRow,
  open,
  parked,
  stageChanged,
  updated,
  type WebhookRow
} from "./Webhooks.support.ts"
import type { Answer } from "../support/ContractHttp.ts"
import type { EventType } from "../support/Events.ts"
import { forAll } from "../support/Properties.ts"

layer(api, { excludeTestServices: true })("a webhook", (it) => {
  it.effect(
    "checks the idempotency key before the endpoint's address, which may not be allowed any more",
    function* () {
      const webhooks = yield* open()
      const before = yield* startServer(
        { DATABASE_URL: webhooks.server.databaseUrl, WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8" },
        "api"
      )
      const key = newKey()
      const change = { endpointUrl: "https://127.0.0.1/" }
      const { signingSecret: _, ...receipt } = secretOf(yield* webhooks.but({ server: before }).configure(change, key))
      assert.deepStrictEqual(receiptOf(yield* webhooks.configure(change, key), 200), { ...receipt, replayed: true })
      for (const endpointUrl of ["https://127.0.0.2/", "http://shop.example.com/"]) {
        problemOf(yield* webhooks.configure({ endpointUrl }, key), 409, "idempotency_key_reused")
      }
    }
  )
})

// `EndpointUrl` tests every spelling.

const urls = [
  {
    allowed: "",
    taken: ["HTTPS://ÜMLAUT.example/日本?token=a%23b", "https://nothing.invalid/"],
    refused: ["http://shop.example.com/hooks", "https://[::ffff:10.0.0.1]/"]
  },
  { allowed: "127.0.0.0/8, fd00::/8", taken: ["http://127.0.0.1:8080/"], refused: ["http://8.8.8.8/"] }
]

for (const { allowed, refused, taken } of urls) {
  const server = TestServer.layer({ WEBHOOK_ALLOWED_NETWORKS: allowed }, "api")

  layer(server, { excludeTestServices: true })(`a webhook's URL with the allowed networks "${allowed}"`, (it) => {
    it.effect("is stored unchanged if it is public or allowed, else nothing changes", function* () {
      const { configure, configured, found, read } = yield* open()
      const refuse = (expectedVersion: number | null) =>
        Effect.forEach(refused, (endpointUrl) =>
          Effect.map(configure({ endpointUrl, expectedVersion }), (answer) =>
            assert.isString(problemOf(answer, 400, "webhook_reference_invalid").detail, endpointUrl)
          )
        )
      yield* refuse(null)
      assert.isUndefined(yield* read)
      for (const [index, endpointUrl] of taken.entries()) {
        const { version } = yield* configured({ endpointUrl, expectedVersion: index === 0 ? null : index })
        assert.deepInclude(yield* found, { endpointUrl, version })
      }
      const before = yield* found
      yield* refuse(taken.length)
      assert.deepStrictEqual(yield* found, before)
    })
  })
}

layer(api, { excludeTestServices: true })("a signing secret", (it) => {
  it.effect("retires 24 hours after the rotation, or after WEBHOOK_SECRET_OVERLAP, and is then deleted", function* () {
    const webhooks = yield* open()
    const { projectId, server, token } = webhooks
    const quick = yield* startServer({ DATABASE_URL: server.databaseUrl, WEBHOOK_SECRET_OVERLAP: "250ms" }, "api")
    yield* webhooks.configured()
    const start = Date.now()
    yield* webhooks.rotated(1)
    const assertRetires = (at: Date | null | undefined, millis: number) => {
      const after = (at?.getTime() ?? 0) - start
      assert.isTrue(after >= millis && after < millis + 10_000, `${after}`)
    }
    const [second, first, ...others] = yield* webhooks.secrets
    assert.deepStrictEqual(others, [])
    assert.isNull(second?.retiresAt)
    assertRetires(first?.retiresAt, 86_400_000)

    yield* callsOf(quick, { projectId, token }, "ins").rotated(2)
    const retires = (yield* webhooks.secrets).map(({ retiresAt }) => retiresAt)
    assert.strictEqual(retires.length, 3)
    assert.isNull(retires[0])
    assertRetires(retires[1], 250)
    // The previous secret keeps its time of retirement.
    assert.deepStrictEqual(retires[2], first?.retiresAt)
    yield* Effect.sleep(300)
    yield* webhooks.rotated(3)
    assert.strictEqual((yield* webhooks.secrets).length, 3)
  })

  it.effect("is opened before anything is changed, so that a key which can't open it changes nothing", function* () {
    const other = Buffer.from(secretKey, "base64").fill(9).toString("base64")
    const { databaseUrl } = yield* startServer({}, "api")
    const under = (env: Record<string, string>) => startServer({ DATABASE_URL: databaseUrl, ...env }, "api")
    const old = yield* under({})
    // Started before anything is stored: afterwards its key would be refused.
    const otherKey = yield* under({ SECRET_KEY: other })
    const seeded = yield* old.seed({ installations: [{ id: "ins", name: "Shop" }] })
    const webhooks = callsOf(old, seeded, "ins")
    const { signingSecret } = yield* webhooks.configured()
    const before = [yield* webhooks.found, yield* webhooks.secrets]
    const key = newKey()
    const change = { expectedVersion: 1, eventTypes: [created] }
    problemOf(yield* webhooks.but({ server: otherKey }).configure(change, key), 500, "internal")
    assert.deepStrictEqual([yield* webhooks.found, yield* webhooks.secrets], before)
    assertConflict(yield* webhooks.but({ server: otherKey }).configure({ expectedVersion: 7 }), 1)

    // The failed request left its idempotency key unused, so a server that has the old secret key answers the secret.
    const successor = webhooks.but({ server: yield* under({ SECRET_KEY: other, SECRET_KEY_PREVIOUS: secretKey }) })
    const answered = { resourceId: "ins", changed: true, version: 2, signingSecret }
    assert.deepStrictEqual(yield* successor.configured(change, key), answered)
    const repeated = yield* webhooks.but({ server: otherKey }).configure(change, key)
    assert.deepInclude(receiptOf(repeated, 200), { version: 2, replayed: true })

    // A new secret is sealed under the key of the process that made it.
    const next = yield* successor.rotated(2)
    problemOf(yield* webhooks.configure({ expectedVersion: 3 }), 500, "internal")
    const after = yield* webhooks.but({ server: otherKey }).configured({ expectedVersion: 3 })
    assert.strictEqual(after.signingSecret, next)
  })

  it.effect("is sealed for its installation and does not open for another", function* () {
    const webhooks = yield* open("ins", "other")
    const other = webhooks.but({ installationId: "other" })
    const neighbour = yield* open()
    const { signingSecret } = yield* webhooks.configured()
    for (const victim of [other, neighbour]) {
      yield* victim.configured()
      const [stolen = assert.fail()] = yield* webhooks.secrets
      const installationId = victim === other ? "other" : "ins"
      yield* Effect.orDie(webhooks.server.sql`
        UPDATE webhook_secrets SET sealed = ${stolen.sealed}
        WHERE project_id = ${victim.projectId} AND installation_id = ${installationId}`)
      const before = [yield* victim.found, yield* victim.secrets]
      const answer = yield* victim.configure({ expectedVersion: 1, eventTypes: [created] })
      problemOf(answer, 500, "internal")
      assert.notInclude(answer.text, signingSecret)
      assert.deepStrictEqual([yield* victim.found, yield* victim.secrets], before)
    }
    assert.strictEqual((yield* webhooks.configured({ expectedVersion: 1 })).signingSecret, signingSecret)
  })
})

/** Creates a webhook for created and updated deals, and a dead delivery for a created deal. */
const openDead = Effect.fnUntraced(function* (...others: ReadonlyArray<string>) {
  const webhooks = yield* open("ins", ...others)
  yield* webhooks.configured()
  yield* webhooks.deliver("dead")
  return webhooks
})

layer(api, { excludeTestServices: true })("a dead delivery", (it) => {
  it.effect("is retried by one of 20 concurrent retries", function* () {
    const { deliver, retry } = yield* openDead()
    for (const id of ["one", "two", "three"]) {
      yield* deliver(id)
      const answers = yield* atOnce(20, () => retry(id))
      const [winner, ...others] = answers.toSorted((left, right) => left.status - right.status)
      unversionedReceiptOf(winner ?? assert.fail())
      for (const other of others) problemOf(other, 409, "webhook_state_conflict")
    }
  })

  it.effect("is retried by at most 20 commands in all", function* () {
    const { deliver, deliveries, projectId, retry, server } = yield* openDead()
    yield* deliver("twenty")
    for (let n = 0; n < 20; n++) {
      unversionedReceiptOf(yield* retry("twenty"))
      yield* Effect.orDie(server.sql`
        UPDATE deliveries SET status = 'dead', available_at = NULL, finished_at = now()
        WHERE project_id = ${projectId} AND id = 'twenty'`)
    }
    const before = yield* deliveries()
    const { detail } = problemOf(yield* retry("twenty"), 409, "webhook_state_conflict")
    assert.include(detail, "at most 20 times")
    assert.deepStrictEqual(yield* deliveries(), before)
    unversionedReceiptOf(yield* retry("dead"))
  })

  it.effect("is not found under another installation", function* () {
    const webhooks = yield* openDead("other", "bare")
    const other = webhooks.but({ installationId: "other" })
    const bare = webhooks.but({ installationId: "bare" })
    yield* other.configured()
    yield* other.deliver("others")
    const neighbour = yield* openDead()
    yield* neighbour.deliver("theirs")
    const before = yield* webhooks.delivery("dead")
    for (const answer of [
      yield* webhooks.retry("others"),
      yield* other.retry("dead"),
      // An installation without a webhook has no deliveries.
      yield* bare.retry("dead"),
      yield* bare.retry("nothing"),
      yield* webhooks.retry("theirs"),
      yield* webhooks.retry("nothing"),
      yield* webhooks.retry("evt dead")
    ]) {
      problemOf(answer, 400, "webhook_reference_invalid")
    }
    problemOf(yield* webhooks.but({ installationId: "nothing" }).retry("dead"), 404, "installation_not_found")
    // Of two deliveries with one id, that of the token's project is retried.
    unversionedReceiptOf(yield* neighbour.retry("dead"))
    assert.deepStrictEqual(yield* webhooks.delivery("dead"), before)
    assert.strictEqual((yield* neighbour.delivery("dead")).status, "pending")
  })
})

const refusedUrl = "http://shop.example.com/"
const eventType = fc.constantFrom<EventType>(created, updated, stageChanged)
const isCurrent = fc.constantFrom(true, true, true, false)

/** A command, an earlier one that succeeded once more, or a change by the worker or an operator. */
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      does: fc.constant("configure" as const),
      endpointUrl: fc.constantFrom("https://a.example/", "https://a.example/", "https://b.example/?a=1", refusedUrl),
      // Their order and their number have no meaning.
      eventTypes: fc.oneof(
        fc.constantFrom<ReadonlyArray<EventType>>([created, updated], [updated, created, updated]),
        fc.array(eventType, { minLength: 1, maxLength: 5 })
      ),
      isCurrent
    })
  },
  fc.record({ does: fc.constant("rotate" as const), isCurrent }),
  { weight: 3, arbitrary: fc.record({ does: fc.constant("retry" as const), delivery: fc.nat(9) }) },
  fc.record({ does: fc.constant("again" as const), earlier: fc.nat(9) }),
  {
    weight: 3,
    arbitrary: fc.record({
      does: fc.constant("deliver" as const),
      status: fc.constantFrom("dead", "dead", "dead", "delivered", "pending", "delivering"),
      type: eventType
    })
  },
  { weight: 2, arbitrary: fc.record({ does: fc.constantFrom("disable" as const, "park" as const) }) }
)
type Step = Parameters<Parameters<typeof step.map>[0]>[0]

type Delivery = Pick<DeliveryRow, "status" | "type" | "retries">

/** Why a delivery is not retried; undefined if it is. */
const refusalOf = ({ enabled, eventTypes }: WebhookRow, { status, type }: Delivery) => {
  if (status === "delivered") return "Only a dead delivery can be retried: this one is delivered."
  if (!enabled) return "The webhook is disabled: configure it again first."
  if (status !== "dead") return "Only a dead delivery can be retried: this one is sent at its nextAttemptAt."
  return eventTypes.includes(type) ? undefined : "The webhook no longer subscribes to the delivery's event type."
}

const run = Effect.fnUntraced(function* (steps: ReadonlyArray<Step>) {
  const webhooks = yield* open()
  let webhook: WebhookRow | undefined
  let isParked = false
  const deliveries = new Map<string, Delivery>()
  const secrets: Array<string> = []
  const done: Array<Effect.Effect<void>> = []
  // A refused command leaves its key free for the next one.
  let key = newKey()
  const succeeded = (repeat: Effect.Effect<Answer>, replay: (answer: Answer) => object, receipt: object) => {
    done.push(Effect.map(repeat, (answer) => assert.deepStrictEqual(replay(answer), { ...receipt, replayed: true })))
    key = newKey()
  }
  const replayed = (answer: Answer) => receiptOf(answer, 200)

  for (const step of steps) {
    const current: number | null = webhook?.version ?? null
    if (step.does === "configure") {
      const { endpointUrl, eventTypes } = step
      const of = { endpointUrl, expectedVersion: step.isCurrent ? current : 99 }
      const answer = yield* webhooks.configure({ ...of, eventTypes }, key)
      if (endpointUrl === refusedUrl) problemOf(answer, 400, "webhook_reference_invalid")
      else if (!step.isCurrent) assertConflict(answer, current)
      else {
        const next = {
          endpointUrl,
          eventTypes: [...new Set(eventTypes)].toSorted(),
          enabled: true,
          version: current ?? 0
        }
        const changed = JSON.stringify(next) !== JSON.stringify(webhook)
        webhook = { ...next, version: next.version + (changed ? 1 : 0) }
        isParked = false
        const { signingSecret, ...receipt } = secretOf(answer)
        assert.deepStrictEqual(receipt, { resourceId: "ins", changed, version: webhook.version })
        if (current === null) secrets.push(signingSecret)
        assert.strictEqual(signingSecret, secrets.at(-1))
        const turned = [...eventTypes, ...eventTypes].toReversed()
        succeeded(webhooks.configure({ ...of, eventTypes: turned }, key), replayed, receipt)
      }
    } else if (step.does === "rotate") {
      const version = step.isCurrent ? (current ?? 1) : 99
      const answer = yield* webhooks.rotate(version, key)
      if (webhook === undefined) problemOf(answer, 409, "webhook_state_conflict")
      else if (!step.isCurrent) assertConflict(answer, current)
      else {
        webhook = { ...webhook, version: version + 1 }
        const { signingSecret, ...receipt } = secretOf(answer)
        assert.deepStrictEqual(receipt, { resourceId: "ins", changed: true, version: version + 1 })
        assert.notInclude(secrets, signingSecret)
        secrets.push(signingSecret)
        succeeded(webhooks.rotate(version, key), replayed, receipt)
      }
    } else if (step.does === "retry") {
      const [id, delivery] = [...deliveries][step.delivery % (deliveries.size + 1)] ?? ["nothing"]
      const before = Date.now()
      const answer = yield* webhooks.retry(id, key)
      if (webhook === undefined || delivery === undefined) problemOf(answer, 400, "webhook_reference_invalid")
      else {
        const refusal = refusalOf(webhook, delivery)
        if (refusal !== undefined) assert.include(problemOf(answer, 409, "webhook_state_conflict").detail, refusal)
        else {
          const { replayed: _, ...receipt } = unversionedReceiptOf(answer)
          assert.deepStrictEqual(receipt, { resourceId: id, changed: true, version: null })
          deliveries.set(id, { ...delivery, status: "pending", retries: 0 })
          const { availableAt } = yield* webhooks.delivery(id)
          const due = availableAt?.getTime() ?? 0
          assert.isTrue(due >= before && due <= Date.now(), `${due}`)
          succeeded(webhooks.retry(id, key), unversionedReceiptOf, receipt)
        }
      }
    } else if (step.does === "again") {
      yield* done[step.earlier % done.length] ?? Effect.void
    } else if (webhook !== undefined && step.does === "deliver") {
      const id = `dlv_${deliveries.size}`
      yield* webhooks.deliver(id, step.status, step.type)
      deliveries.set(id, { status: step.status, type: step.type, retries: 10 })
    } else if (webhook !== undefined && step.does === "disable") {
      yield* webhooks.disable
      webhook = { ...webhook, enabled: false }
    } else if (webhook !== undefined) {
      yield* webhooks.setHealth(parked)
      isParked = true
    }

    // No step has changed anything else.
    const row = yield* webhooks.read
    assert.deepStrictEqual(row && { ...row, eventTypes: row.eventTypes.toSorted() }, webhook)
    if (webhook === undefined) continue
    const { failedProbes, failures, parkedUntil } = yield* webhooks.health
    assert.deepStrictEqual([failures, failedProbes, parkedUntil !== null], isParked ? [12, 2, true] : [0, 0, false])
    for (const { attempts, id, retries, status, type } of yield* webhooks.deliveries()) {
      assert.deepStrictEqual([attempts, { status, type, retries }], [11, deliveries.get(id)])
    }
  }
})

layer(api, { excludeTestServices: true })("commands on webhooks", (it) => {
  it.effect("agree with the model in answers, webhooks, health and deliveries", function* () {
    yield* forAll(fc.array(step, { minLength: 15, maxLength: 40, size: "max" }), run, { numRuns: 20 })
  })
})
