/** Random commands on a webhook and its deliveries, compared with a model (contract §5, §10). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import * as fc from "fast-check"
import { problemOf, receiptOf, secretOf, unversionedReceiptOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import type { EventType } from "../support/Events.ts"
import { forAll } from "../support/Properties.ts"
import { newKey } from "./Requests.ts"
import {
  api,
  assertConflict,
  created,
  type DeliveryRow,
  open,
  parked,
  stageChanged,
  updated,
  type WebhookRow
} from "./Webhooks.support.ts"

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
