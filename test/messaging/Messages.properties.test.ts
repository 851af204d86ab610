/** Messages under random outcomes, kills and changes by operators, compared with a model of contract §8. */
import { assert, layer } from "../support/Vitest.ts"
import { Clock, Duration, Effect, Exit, Fiber, Option } from "effect"
import * as fc from "fast-check"
import { TestClock } from "effect/testing"
import type { AttemptStatus, MessageStatus } from "../../src/api/messaging/Messaging.ts"
import type { Outcome } from "../../src/messaging/providers/Outcomes.ts"
import { Operator } from "../../src/platform/operators/Audit.ts"
import { type Call, engine, Made, openProject, type Provider, untilLater, untilLive } from "./Messages.support.ts"

/** The end of a call; `killed`: its process is killed, and the outcome is never recorded. */
type Ending =
  | { readonly is: "accepted" | "refused" | "unknown" | "killed" }
  | { readonly is: "postponed"; readonly retryAfter: number | undefined }

/** A change by an operator. */
type OutsideChange = "nothing" | "settle sent" | "settle failed" | "revoke" | "swap" | "restore"

/** The state of a message in the model. */
interface Known {
  readonly status: MessageStatus
  readonly log: ReadonlyArray<AttemptStatus>
  /** Milliseconds from the end of the last attempt to the next; null if there is no next one. */
  readonly next: number | null
}

const backoff = [1_000, 5_000, 30_000, 120_000]

/** Returns the next state of a message after an attempt in flight. */
const ended = ({ log }: Known, ending: Ending, idempotent: boolean): Known => {
  const before = log.slice(0, -1)
  const delay = backoff[log.length - 1] ?? null
  switch (ending.is) {
    case "accepted":
      return { status: "sent", log: [...before, "accepted"], next: null }
    case "refused":
      return { status: givenUp(before), log: [...before, "rejected"], next: null }
    case "unknown":
    case "killed":
      return { status: "unknown", log: [...before, "unknown"], next: idempotent ? delay : null }
    case "postponed":
      if (delay === null) return { status: givenUp(before), log: [...before, "rejected"], next: null }
      return { status: "retrying", log: [...before, "retrying"], next: Math.max(delay, ending.retryAfter ?? 0) }
  }
}

/** Returns the final status after the last attempt: a message that may have been sent fails only by an operator. */
const givenUp = (log: ReadonlyArray<AttemptStatus>): MessageStatus => (log.includes("unknown") ? "unknown" : "failed")

/** Returns the next state of a message whose channel is revoked or changed when its next attempt is due. */
const abandoned = ({ log }: Known): Known => ({ status: givenUp(log), log, next: null })

const begun = (known: Known): Known => ({ ...known, log: [...known.log, "pending"] })

/** Returns the next state after an operator settles the message; undefined if that is refused. */
const settled = (known: Known, as: "sent" | "failed"): Known | undefined => {
  if (known.status === as) return known
  if (known.status !== "unknown") return undefined
  const log = known.log.map((status) => (status === "pending" ? "unknown" : status))
  return { status: as, log, next: null }
}

interface Turn {
  /** A change before the attempt is due. */
  readonly before: OutsideChange
  /** A change while the attempt is in flight. */
  readonly meanwhile: OutsideChange
  readonly ending: Ending
}

const ending: fc.Arbitrary<Ending> = fc.oneof(
  { weight: 1, arbitrary: fc.constantFrom<Ending>({ is: "accepted" }, { is: "refused" }) },
  { weight: 4, arbitrary: fc.constant<Ending>({ is: "unknown" }) },
  { weight: 1, arbitrary: fc.constant<Ending>({ is: "killed" }) },
  {
    weight: 4,
    arbitrary: fc
      .constantFrom(undefined, undefined, 0, 3_000, 31_500, 600_000)
      .map((retryAfter): Ending => ({ is: "postponed", retryAfter }))
  }
)
const outsideChange = fc.oneof(
  { weight: 12, arbitrary: fc.constant<OutsideChange>("nothing") },
  fc.constantFrom<OutsideChange>("settle sent", "settle failed", "revoke", "swap", "restore")
)
/** One turn for each possible attempt, and one for a sixth that must not happen. */
const turns = fc.array(fc.record({ before: outsideChange, meanwhile: outsideChange, ending }), {
  minLength: 6,
  maxLength: 6
})

const outcomeOf = (ending: Ending): Outcome => {
  switch (ending.is) {
    // The provider's answer comes after the lease has ended.
    case "killed":
    case "accepted":
      return { _tag: "accepted", providerMessageId: "p" }
    case "refused":
      return { _tag: "refused", errorCode: "http_400" }
    case "unknown":
      return { _tag: "unknown", errorCode: "timeout" }
    case "postponed":
      return {
        _tag: "postponed",
        errorCode: "http_503",
        retryAfter: Option.map(Option.fromUndefinedOr(ending.retryAfter), Duration.millis)
      }
  }
}

const run = Effect.fnUntraced(function* (provider: Provider, turns: ReadonlyArray<Turn>) {
  const { calls } = yield* Made
  const project = yield* openProject(provider)
  const from = calls.length
  let known: Known = { status: "pending", log: [], next: 0 }
  let hasChannel = true

  const changeFromOutside = Effect.fnUntraced(function* (what: OutsideChange) {
    if (what === "nothing") return
    if (what === "settle sent" || what === "settle failed") {
      const { id } = yield* project.row
      const as = what === "settle sent" ? "sent" : "failed"
      const expected = settled(known, as)
      const exit = yield* Effect.exit(Effect.provideService(project.settle(id, as), Operator, { actor: "tester" }))
      assert.strictEqual(Exit.isSuccess(exit), expected !== undefined, `${known.status} settled as ${as}`)
      known = expected ?? known
      return
    }
    yield* project[what]
    hasChannel = what === "restore"
  })

  /** Asserts that the message equals the model's; returns the time of its next attempt. */
  const assertKnown = Effect.fnUntraced(function* () {
    const row = yield* project.row
    const last = row.log.at(-1)
    const next = known.next === null ? null : new Date(Date.parse(String(last?.finishedAt)) + known.next)
    assert.deepStrictEqual(
      {
        status: row.status,
        log: row.log.map(({ status }) => status),
        next: row.availableAt,
        shown: last?.nextAttemptAt
      },
      { status: known.status, log: known.log, next, shown: next?.toISOString() ?? null }
    )
    assert.isFalse(row.attempting)
    assert.strictEqual(calls.length - from, known.log.length)
    return next
  })

  /** Returns the call of the attempt that has begun; asserts that it is the message's, and the only one. */
  const callOf = Effect.fnUntraced(function* () {
    assert.strictEqual(calls.length - from, known.log.length)
    const call: Call = calls.at(-1) ?? assert.fail("no call")
    assert.strictEqual(call.messageId, (yield* project.row).id)
    return call
  })

  const end = Effect.fnUntraced(function* (call: Call, { ending, meanwhile }: Turn) {
    yield* changeFromOutside(meanwhile)
    const wasSettled = known.log.at(-1) !== "pending"
    if (ending.is === "killed" && !wasSettled) {
      // Its lease ends, and a claim finds that.
      yield* TestClock.adjust("14 seconds")
      assert.strictEqual((yield* project.row).log.at(-1)?.status, "pending")
      yield* untilLater(project.row, (row) => !row.attempting)
    }
    if (!wasSettled) known = ended(known, ending, provider !== "telegram")
    yield* call.answer(outcomeOf(ending))
  })

  const sending = yield* Effect.forkChild(project.send)
  yield* untilLive(
    Effect.sync(() => calls.length),
    (length) => length > from
  )
  for (const [index, turn] of turns.entries()) {
    if (index > 0) {
      yield* changeFromOutside(turn.before)
      const due = yield* assertKnown()
      if (due === null) continue
      // There is no attempt before its time.
      yield* TestClock.adjust(due.getTime() - (yield* Clock.currentTimeMillis) - 1)
      yield* TestClock.withLive(Effect.sleep("10 millis"))
      assert.strictEqual(calls.length - from, known.log.length)
      yield* untilLater(project.row, (row) => row.availableAt?.getTime() !== due.getTime())
      if (!hasChannel) {
        known = abandoned(known)
        continue
      }
      yield* untilLive(
        Effect.sync(() => calls.length),
        (length) => length - from > known.log.length
      )
    }
    known = begun(known)
    yield* end(yield* callOf(), turn)
    if (index === 0) {
      const { message, replayed } = yield* Fiber.join(sending)
      assert.deepStrictEqual([message.deliveryStatus, replayed], [known.status, false])
    }
    yield* untilLive(project.row, (row) => !row.attempting)
    // Waits until a late result has been handled, too.
    yield* TestClock.withLive(Effect.sleep("5 millis"))
    yield* assertKnown()
  }

  // No further call is made, not even after a replay.
  assert.isNull(known.next)
  const before = yield* project.row
  // Longer than the longest pause.
  yield* TestClock.adjust("5 minutes")
  const { message, replayed } = yield* project.send
  assert.deepStrictEqual([message.deliveryStatus, message.messageId, replayed], [known.status, before.id, true])
  assert.deepStrictEqual(yield* project.row, before)
  assert.strictEqual(calls.length - from, known.log.length)
})

layer(engine)("a message", (it) => {
  it.effect("agrees with the model for any outcomes of its calls", function* () {
    const context = yield* Effect.context<Effect.Services<ReturnType<typeof run>>>()
    yield* Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(fc.constantFrom<Provider>("sandbox", "sandbox", "telegram"), turns, (provider, turns) =>
          Effect.runPromiseWith(context)(run(provider, turns))
        ),
        // A counterexample has to be found before the test times out.
        { numRuns: 25, interruptAfterTimeLimit: 45_000 }
      )
    )
  })
})
