/** Retry of dead deliveries: which are accepted, and their state afterwards (contract §5, §10). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { problemOf, unversionedReceiptOf } from "../support/ContractAnswers.ts"
import { atOnce } from "./Clients.support.ts"
import { newKey } from "./Requests.ts"
import { api, created, open, stageChanged, updated } from "./Webhooks.support.ts"

/** Creates a webhook for created and updated deals, and a dead delivery for a created deal. */
const openDead = Effect.fnUntraced(function* (...others: ReadonlyArray<string>) {
  const webhooks = yield* open("ins", ...others)
  yield* webhooks.configured()
  yield* webhooks.deliver("dead")
  return webhooks
})

layer(api, { excludeTestServices: true })("a dead delivery", (it) => {
  it.effect("is due immediately after a retry, with a new schedule and continued attempt numbers", function* () {
    const { delivery, retry } = yield* openDead()
    const before = Date.now()
    const answer = yield* retry("dead")
    assert.deepStrictEqual(unversionedReceiptOf(answer), {
      resourceId: "dead",
      changed: true,
      version: null,
      replayed: false
    })
    assert.deepStrictEqual(answer.json, { resourceId: "dead", changed: true })
    const { availableAt, ...row } = yield* delivery("dead")
    assert.deepStrictEqual(row, { status: "pending", attempts: 11, retries: 0, finishedAt: null })
    const due = availableAt?.getTime() ?? 0
    assert.isTrue(due >= before && due <= Date.now(), `${due}`)
  })

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

  it.effect("is the only state that can be retried", function* () {
    const { deliver, delivery, retry } = yield* openDead()
    for (const status of ["pending", "delivering", "delivered"]) {
      yield* deliver(status, status)
      const before = yield* delivery(status)
      const { detail } = problemOf(yield* retry(status), 409, "webhook_state_conflict")
      const why =
        status === "delivered"
          ? "is delivered. An operator can send it again by a replay"
          : "is sent at its nextAttemptAt"
      assert.strictEqual(detail, `Only a dead delivery can be retried: this one ${why}.`)
      assert.deepStrictEqual(yield* delivery(status), before)
    }
  })

  it.effect("stays dead while its webhook is disabled", function* () {
    const { configured, deliver, delivery, disable, retry } = yield* openDead()
    yield* deliver("next", "pending")
    yield* disable
    const before = yield* delivery("dead")
    const key = newKey()
    // The pending one is dead-lettered soon: waiting for it would be no remedy.
    for (const id of ["dead", "next"]) {
      const { detail } = problemOf(yield* retry(id, key), 409, "webhook_state_conflict")
      assert.strictEqual(detail, "The webhook is disabled: configure it again first.")
    }
    assert.deepStrictEqual(yield* delivery("dead"), before)
    yield* configured({ expectedVersion: 1 })
    assert.isFalse(unversionedReceiptOf(yield* retry("dead", key)).replayed)
  })

  it.effect("stays dead while its webhook does not subscribe to its type", function* () {
    const { configured, deliver, delivery, retry } = yield* openDead()
    yield* deliver("never", "dead", stageChanged)
    yield* configured({ expectedVersion: 1, eventTypes: [updated] })
    const before = yield* delivery("dead")
    for (const id of ["dead", "never"]) problemOf(yield* retry(id), 409, "webhook_state_conflict")
    assert.deepStrictEqual(yield* delivery("dead"), before)
    yield* configured({ expectedVersion: 2, eventTypes: [created, updated], endpointUrl: "https://new.example.com/" })
    unversionedReceiptOf(yield* retry("dead"))
    problemOf(yield* retry("never"), 409, "webhook_state_conflict")
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

  it.effect("does not unpark its endpoint when it is retried", function* () {
    const { delivery, found, health, park, retry } = yield* openDead()
    yield* park
    const [parked, webhook] = [yield* health, yield* found]
    unversionedReceiptOf(yield* retry("dead"))
    assert.deepStrictEqual([yield* health, yield* found], [parked, webhook])
    assert.strictEqual((yield* delivery("dead")).status, "pending")
  })
})
