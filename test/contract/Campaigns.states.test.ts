/** Every operation in every state of a campaign, over HTTP, against the table of contract §9. */
import { assert, it as pure, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { type CampaignStatus, campaignStatuses, operations } from "../../src/api/campaigns/Commands.ts"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { type CampaignRow, everybody, open, otherRoute, route } from "./Campaigns.support.ts"
import { rowsOf } from "./Operations.ts"

/** The lines of the contract's table of states and operations. */
const [head = [], ...lines] = rowsOf("§9. ").filter((line) => line.length === 7)

/** Every cell of the table. */
const cells = lines.flatMap(([operations = "", ...outcomes]) =>
  operations
    .split(", ")
    .flatMap((operation) => outcomes.map((outcome, index) => ({ operation, status: head[index + 1] ?? "", outcome })))
)

const isStatus = (name: string): name is CampaignStatus => campaignStatuses.some((status) => status === name)

/** The command of each operation; it changes something of a campaign made by `prepare`. */
const commands: Readonly<Record<string, (version: number) => object>> = {
  rename: (expectedVersion) => ({ expectedVersion, name: "Renamed" }),
  delete: (expectedVersion) => ({ expectedVersion }),
  bind_template: () => ({ templateId: "welcome", templateVersion: 1 }),
  bind_sender: () => ({ channelId: "backup" }),
  set_primary_route: () => otherRoute,
  set_fallback_route: () => route,
  remove_fallback_route: () => ({}),
  freeze_audience: () => ({ filter: everybody }),
  schedule: () => ({ scheduledForLocal: "2999-12-31T23:59", sendsPerMinute: 7 }),
  duplicate: () => ({}),
  pause: () => ({}),
  resume: () => ({}),
  cancel: () => ({})
}

type Calls = Effect.Success<ReturnType<typeof open>>

/** Brings a new draft, with both routes and an audience, to a state. One that runs, or ran, was paused and resumed before. */
const prepare = Effect.fnUntraced(function* (calls: Calls, id: string, status: string, pausedFrom = "scheduled") {
  yield* calls.apply({ campaigns: [{ id, name: "Campaign" }] })
  yield* calls.ready(id)
  yield* calls.done(id, { operation: "set_fallback_route", ...otherRoute })
  if (status === "draft") return
  yield* calls.done(id, { operation: "schedule", scheduledForLocal: "2999-01-01T10:00", sendsPerMinute: 60 })
  if (status === "running" || status === "completed" || pausedFrom === "running") {
    yield* calls.done(id, { operation: "pause" })
    yield* calls.done(id, { operation: "resume" })
    yield* calls.force(id, status === "completed" ? "completed" : "running")
  }
  if (status === "paused") yield* calls.done(id, { operation: "pause" })
  if (status === "cancelled") yield* calls.done(id, { operation: "cancel" })
})

/** The members of a campaign that an allowed operation changes. */
const changes: Readonly<Record<string, Partial<CampaignRow>>> = {
  rename: { name: "Renamed" },
  bind_template: { primary: ["welcome", "1", "chat"] },
  bind_sender: { primary: ["welcome", "2", "backup"] },
  set_primary_route: { primary: ["reminder", "1", "backup"] },
  set_fallback_route: { fallback: ["welcome", "2", "chat"] },
  remove_fallback_route: { fallback: [null, null, null] }
}

const scheduled = { scheduledFor: new Date("2999-12-31T23:59:00.000Z"), sendsPerMinute: 7 }

pure("the contract has a cell for each of 13 operations in each of 6 states", () => {
  assert.strictEqual(cells.length, 6 * 13)
  assert.deepStrictEqual([...new Set(cells.map(({ operation }) => operation))].toSorted(), operations.toSorted())
  assert.deepStrictEqual([...new Set(cells.map(({ status }) => status))], [...campaignStatuses])
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a campaign", (it) => {
  /** Asserts that a command has the outcome that a cell of the table states. */
  const assertCell = Effect.fnUntraced(function* (
    calls: Calls,
    id: string,
    { operation, pausedFrom, outcome }: { operation: string; pausedFrom: CampaignStatus; outcome: string }
  ) {
    const before = yield* calls.read(id)
    const answer = yield* calls.command(id, { operation, ...commands[operation]?.(before.version) })
    if (outcome === "409") {
      const { detail } = problemOf(answer, 409, "campaign_state_conflict")
      assert.include(detail, `is ${before.status};`)
      return assert.deepStrictEqual(yield* calls.read(id), before)
    }
    const receipt = receiptOf(answer, 200)
    assert.isFalse(receipt.replayed)
    assert.strictEqual(receipt.changed, outcome !== "unchanged")
    if (operation === "delete") {
      assert.deepStrictEqual([receipt.resourceId, receipt.version], [id, before.version])
      return assert.isFalse(yield* calls.exists(id))
    }
    if (outcome === "new draft") {
      assert.match(receipt.resourceId, /^cmp_[0-9a-f]{32}$/)
      assert.deepStrictEqual(yield* calls.read(id), before)
      const { createdAt: _, updatedAt: __, ...copy } = yield* calls.read(receipt.resourceId)
      const empty = { audienceId: null, scheduledFor: null, sendsPerMinute: null, pausedFrom: null, resumedAt: null }
      const { fallback, primary } = before
      return assert.deepStrictEqual(copy, {
        ...empty,
        name: "Campaign copy",
        status: "draft",
        version: 1,
        primary,
        fallback
      })
    }
    const after = yield* calls.read(id)
    assert.deepStrictEqual([receipt.resourceId, receipt.version], [id, after.version])
    if (outcome === "unchanged") return assert.deepStrictEqual(after, before)
    assert.strictEqual(after.version, before.version + 1)
    if (operation === "freeze_audience") assert.notStrictEqual(after.audienceId, before.audienceId)
    if (operation === "resume") assert.isAtLeast(Number(after.resumedAt), Number(before.updatedAt))
    const status = outcome.startsWith("→ the")
      ? pausedFrom
      : outcome.startsWith("→ ")
        ? outcome.slice(2)
        : before.status
    assert.deepStrictEqual(after, {
      ...before,
      ...changes[operation],
      ...(operation === "schedule" ? scheduled : {}),
      ...(operation === "freeze_audience" ? { audienceId: after.audienceId } : {}),
      ...(operation === "resume" ? { resumedAt: after.resumedAt } : {}),
      ...(isStatus(status) ? { status } : {}),
      pausedFrom: operation === "pause" ? before.status : operation === "rename" ? before.pausedFrom : null,
      version: before.version + 1,
      updatedAt: after.updatedAt
    })
    assert.isAtLeast(Number(after.updatedAt), Number(before.updatedAt))
  })

  for (const { operation, outcome, status } of cells) {
    it.effect(`that is ${status} answers ${operation} with: ${outcome}`, function* () {
      const calls = yield* open()
      const origins: ReadonlyArray<CampaignStatus> = status === "paused" ? ["scheduled", "running"] : ["scheduled"]
      for (const pausedFrom of origins) {
        const id = `c-${pausedFrom}`
        yield* prepare(calls, id, status, pausedFrom)
        assert.strictEqual((yield* calls.read(id)).status, status)
        yield* assertCell(calls, id, { operation, pausedFrom, outcome })
      }
    })
  }
})
