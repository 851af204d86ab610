/** Random commands on deals: answers, records, events and deliveries, compared with a model (contract §5, §7, §10). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import * as fc from "fast-check"
import { type DealShape, faultsOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { eventsOf, type EventType, subscribe } from "../support/Events.ts"
import { forAll } from "../support/Properties.ts"
import {
  assertRecord,
  type Command,
  type Done,
  emitted,
  outcomeOf,
  known,
  type Patch,
  contentOf,
  type Sent,
  type World
} from "./Deals.model.support.ts"
import { api, created, previousOf, stageChanged, updated } from "./Deals.events.support.ts"
import { open } from "./Deals.support.ts"
import { newKey } from "./Requests.ts"

/** A text that SQL, JSON or HTML could change on its way into an event. */
const awkward = "'; -- \"\\ \u0001\n\u2028 e\u0301 é </script>&amp;"

/** Parts of bodies with a valid shape, few of each, so that commands often repeat current values. */
const pieces: ReadonlyArray<fc.Arbitrary<Patch>> = [
  fc.constantFrom("A", "B", "😀".repeat(160), awkward).map((title) => ({ title })),
  fc.constantFrom(null, ...known.clientId, "nobody").map((clientId) => ({ clientId })),
  fc.constantFrom(null, ...known.organizationId, "nobody").map((organizationId) => ({ organizationId })),
  fc.constantFrom(null, ...known.responsibleMemberId, "nobody").map((responsibleMemberId) => ({ responsibleMemberId })),
  fc.constantFrom(null, "x", "y").map((externalId) => ({ externalId })),
  fc.constantFrom(null, "2024-02-29", "2026-12-31").map((expectedCloseDate) => ({ expectedCloseDate })),
  fc.constantFrom<Patch>(
    { amountMinor: 0, currency: "EUR" },
    { amountMinor: 2 ** 53 - 1, currency: "JPY" },
    { amountMinor: null, currency: null },
    { amountMinor: 1 },
    { amountMinor: null },
    { currency: "EUR" },
    { currency: null }
  ),
  fc.constantFrom<Patch>(
    { pipelineId: "sales" },
    { pipelineId: "service" },
    { pipelineId: "sales", stageId: "closing" },
    { pipelineId: "service", stageId: "intake" },
    { pipelineId: "service", stageId: "new" },
    { pipelineId: "nothing" }
  ),
  fc.constantFrom("new", "agreed", "closing", "done", "nothing").map((stageId) => ({ stageId }))
]
const patchPieces: ReadonlyArray<fc.Arbitrary<Patch>> = [
  ...pieces,
  // Twice as likely as the others, so that deals often change their status.
  ...[1, 2].map(() => fc.constantFrom<Patch>({ status: "open" }, { status: "won" }, { status: "lost" })),
  fc.constantFrom<Patch>({ status: "lost", lostReason: awkward }, { lostReason: "y" }, { lostReason: null }),
  fc.constantFrom<Patch>({ lifecycle: "active" }, { lifecycle: "archived" })
]

const bodyOf = (pieces: ReadonlyArray<fc.Arbitrary<Patch>>): fc.Arbitrary<Patch> =>
  fc.array(fc.oneof(...pieces), { minLength: 1, maxLength: 3 }).map((pieces) => Object.assign({}, ...pieces))

/** Members that are invalid in every body. */
const faulty: ReadonlyArray<object> = [
  { title: "" },
  { title: null },
  { clientId: 1 },
  { stageId: null },
  { amountMinor: -1 },
  { amountMinor: 1.5 },
  { amountMinor: 2 ** 53 },
  { currency: "eur" },
  { expectedCloseDate: "2026-02-30" },
  { lostReason: "" },
  { closedAt: null, version: 1 }
]
const seldom = (faults: ReadonlyArray<object>) =>
  fc.oneof({ weight: 9, arbitrary: fc.constant({}) }, fc.constantFrom(...faults))

const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({
    operation: fc.constant("create" as const),
    body: bodyOf(pieces).map((body) => ({ title: "A", ...body })),
    faulty: seldom([...faulty, { status: "open" }, { lifecycle: "active", lostReason: null }])
  }),
  {
    weight: 6,
    arbitrary: fc.record({
      operation: fc.constant("patch" as const),
      deal: fc.option(fc.nat(9), { freq: 15 }),
      body: fc.oneof({ weight: 30, arbitrary: bodyOf(patchPieces) }, fc.constant({})),
      faulty: seldom([...faulty, { status: "all" }, { lifecycle: null }])
    })
  }
)

/** A command with a new key or that of an earlier step, or a repetition of an earlier step. */
type Step = { readonly command: Command; readonly keyOf: number | null } | { readonly again: number }

/** The first step of every run. */
const firstStep: Step = { command: { operation: "create", body: { title: "A" }, faulty: {} }, keyOf: null }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ command, keyOf: fc.oneof({ weight: 9, arbitrary: fc.constant(null) }, fc.nat(20)) })
  },
  fc.record({ again: fc.nat(20) })
)

const webhooks = fc.array(
  fc.record({
    types: fc.subarray([created, updated, stageChanged], { minLength: 1 }),
    enabled: fc.constantFrom(true, true, true, false)
  }),
  { minLength: 1, maxLength: 4 }
)

interface Webhook {
  readonly types: ReadonlyArray<EventType>
  readonly enabled: boolean
}

/** Runs the steps in a new project. */
const run = Effect.fnUntraced(function* (webhooks: ReadonlyArray<Webhook>, steps: ReadonlyArray<Step>) {
  const { create, page, patch, projectId, read, server } = yield* open()
  for (const [index, { enabled, types }] of webhooks.entries()) {
    yield* subscribe(server.sql, projectId, `hook ${index}`, types, enabled)
  }
  const world: World = { deals: new Map(), answered: new Map() }
  const records = new Map<string, DealShape>()
  const history: Array<Sent> = []
  const seen = new Set<string>()

  const sentOf = (step: Step): Sent | undefined => {
    if ("again" in step) return history[step.again % history.length]
    const { command, keyOf } = step
    const key = (keyOf === null ? undefined : history[keyOf]?.key) ?? newKey()
    const ids = [...world.deals.keys()]
    const one = command.operation === "patch" && command.deal !== null ? ids[command.deal % ids.length] : undefined
    const id = command.operation === "create" ? undefined : (one ?? "nothing")
    return { command, id, body: { ...command.body, ...command.faulty }, key }
  }

  /**
   * Returns the expected events, each with the enabled webhooks that subscribe to it. One to which disabled webhooks alone subscribe is
   * stored, too. A change has what it altered of the record `last`.
   */
  const expectedEvents = (done: Done, deal: DealShape, last: DealShape | undefined) =>
    emitted(done).flatMap(({ more, type }) => {
      const installations = webhooks.flatMap(({ enabled, types }, index) =>
        enabled && types.includes(type) ? [`hook ${index}`] : []
      )
      return webhooks.every(({ types }) => !types.includes(type))
        ? []
        : [{ type, data: { deal, ...more, ...(last && { previous: previousOf(last, deal) }) }, installations }]
    })

  for (const step of steps) {
    const sent = sentOf(step)
    if (sent === undefined) continue
    history.push(sent)
    const { body, id, key } = sent
    const expected = outcomeOf(world, sent)
    const answer = yield* id === undefined ? create(body, key) : patch(id, body, key)
    let events: ReadonlyArray<object> = []
    if ("code" in expected) {
      problemOf(answer, expected.status, expected.code)
      if (expected.faults !== undefined) assert.deepStrictEqual(faultsOf(answer), expected.faults)
    } else {
      const { replayed, ...receipt } = receiptOf(answer, id === undefined ? 201 : 200)
      const { resourceId } = receipt
      if ("receipt" in expected) {
        assert.deepStrictEqual([replayed, receipt], [true, expected.receipt])
      } else {
        const { after, before } = expected
        const changed = after !== before
        assert.deepStrictEqual(
          [replayed, receipt],
          [false, { resourceId: id ?? resourceId, changed, version: after.version }]
        )
        assert.strictEqual(world.deals.has(resourceId), before !== undefined)
        const record = yield* read(resourceId)
        assertRecord(record, expected, records.get(resourceId))
        events = expectedEvents(expected, record, records.get(resourceId))
        records.set(resourceId, record)
        world.deals.set(resourceId, after)
        world.answered.set(key, { request: contentOf(sent), receipt })
      }
    }
    const newEvents = (yield* eventsOf(server.sql, projectId)).filter(({ id }) => !seen.has(id))
    for (const { id } of newEvents) seen.add(id)
    assert.deepStrictEqual(
      newEvents.map(({ data, installations, type }) => ({ type, data, installations })),
      events
    )
    // No command has changed anything else.
    assert.sameDeepMembers([...(yield* page("lifecycle=all&limit=100")).items], [...records.values()])
  }
})

layer(api, { excludeTestServices: true })("commands on deals", (it) => {
  it.effect("agree with the model in answers, records, events and deliveries", function* () {
    const steps = fc.array(step, { minLength: 10, maxLength: 30 })
    yield* forAll(fc.tuple(webhooks, steps), ([webhooks, steps]) => run(webhooks, [firstStep, ...steps]), {
      numRuns: 20
    })
  })
})
