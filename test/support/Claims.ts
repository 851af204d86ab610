/** Claims and records that tests make in place of a worker, and their parameters. */
import { Clock, Duration, Effect, Layer, Option } from "effect"
import type { SqlClient } from "effect/sql"
import { DeliveryId, EventId, InstallationId, ProjectId } from "../../src/api/schema/Ids.ts"
import type { Claim, Lease, Result } from "../../src/webhooks/delivery/Attempt.ts"
import { claim } from "../../src/webhooks/delivery/DeliveryLoop/Claim.ts"
import { record } from "../../src/webhooks/delivery/DeliveryLoop/Record.ts"
import { resultOf } from "../../src/webhooks/delivery/DeliveryLoop/Results.ts"
import type { Named, Rooms } from "../../src/webhooks/delivery/DeliveryLoop/Visits.ts"
import type { AttemptOutcome } from "../../src/webhooks/address/Sender.ts"
import type { Limits } from "../../src/messaging/providers/ChannelLimits.ts"
import { DatabaseClock } from "../../src/sql/Times.ts"

/** Returns SQL for a time of the test, in place of the database's clock. */
export const timeOf = (sql: SqlClient.SqlClient, at: Date) => sql`${at}::timestamptz`

/** Returns limits with this number of permits in total, and for each channel. */
export const limitsOf = (free: number): Limits => ({
  free,
  channels: [],
  projects: [],
  newChannel: free,
  blocked: []
})

/** Free slots for the attempts of deliveries, all of which any project may take. */
export const roomsOf = (healthy: number, suspect: number): Rooms => ({
  healthy: { free: healthy, newcomer: healthy, holders: [] },
  suspect: { free: suspect, newcomer: suspect, holders: [] }
})

/** Returns an endpoint as a claim names it. */
export const namedOf = (projectId: string, installation = "shop", width = 4): Named => ({
  projectId: ProjectId.make(projectId),
  installationId: InstallationId.make(installation),
  width
})

/** Claims as worker 1, for a minute, with room for everything that is due, unless the terms differ. */
export const claimWith = (sql: SqlClient.SqlClient, terms: Partial<Parameters<typeof claim>[1]> = {}) =>
  Effect.orDie(
    claim(sql, {
      workerId: 1n,
      leaseMillis: 60_000,
      concurrency: 4,
      rooms: roomsOf(1_000, 1_000),
      isPoll: true,
      named: [],
      ...terms
    })
  )

/** Records results as worker 1. */
export const recordAll = (sql: SqlClient.SqlClient, results: ReadonlyArray<Result>, disableAfterMillis = 1e12) =>
  Effect.orDie(record(sql, results, { concurrency: 4, disableAfterMillis, workerId: 1n }))

/** The answer of an endpoint, with the seconds of its `Retry-After`. */
export const answered = (status: number, retryAfter?: number): AttemptOutcome => ({
  _tag: "answered",
  status,
  retryAfter: Option.map(Option.fromUndefinedOr(retryAfter), Duration.seconds),
  body: null
})

const schedule = Array.from({ length: 10_000 }, () => Duration.seconds(5))

/** Returns the result of an attempt with an outcome. The pauses have the middle of the jitter: they are as configured. */
export const resultWith = (claim: Claim, outcome: AttemptOutcome): Result =>
  resultOf(leaseOf(claim), outcome, { startedAt: 0, finishedAt: 0 }, schedule, 0.5)

export const leaseOf = (claim: Claim): Lease => ({ ...claim, startedAt: 0, beganAt: 0, loop: { turns: 0, idle: 0 } })

/** Returns a claimed delivery of a number, at its first attempt. */
export const claimOf = (due: number): Claim => ({
  projectId: ProjectId.make("prj_1"),
  installationId: InstallationId.make("shop"),
  id: DeliveryId.make(`dlv_${due}`),
  webhookId: DeliveryId.make(`dlv_${due}`),
  attempt: 1,
  leasedUntil: new Date(0),
  retries: 0,
  suspect: false,
  endpointUrl: "http://127.0.0.1:9/",
  version: 1,
  secrets: "",
  eventId: EventId.make(`evt_${due}`),
  type: "crm.deal.created.v1",
  data: "{}",
  occurredAt: new Date(due).toISOString(),
  traceparent: ""
})

const driven = Layer.succeed(DatabaseClock, (sql) =>
  Effect.map(Clock.currentTimeMillis, (millis) => sql`${new Date(millis)}::timestamptz`)
)

/** Replaces the database's clock by the test clock if there is one. */
export const databaseClock = Layer.unwrap(
  Effect.map(Clock.Clock, (clock) => ("adjust" in clock ? driven : Layer.empty))
)
