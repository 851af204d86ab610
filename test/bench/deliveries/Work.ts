/** The deliveries: events like those of real commands, the same for every contender. */
import { Effect } from "effect"
import type { SqlError } from "effect/sql"
import { InstallationId } from "../../../src/api/schema/Ids.ts"
import { newId } from "../../../src/platform/Ids.ts"
import type { BenchFailed } from "../Stage.ts"

export const installationId = (i: number): InstallationId => InstallationId.make(`ins_${String(i).padStart(3, "0")}`)

export const eventType = "crm.deal.created.v1"

/** The `traceparent` of every event. */
export const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

/** An event for one endpoint. */
export interface Work {
  readonly id: string
  readonly eventId: string
  /** Index of the endpoint. */
  readonly endpoint: number
  readonly occurredAt: string
  /** Data of the event as JSON. */
  readonly data: string
}

/** Creates events for the endpoints in turn. */
export const makeWork = (count: number, endpoints: number) =>
  Effect.forEach(
    Array.from({ length: count }, (_, i) => i),
    Effect.fnUntraced(function* (i) {
      const occurredAt = new Date().toISOString()
      const deal = {
        id: yield* newId("deal"),
        title: `Analytical engine no. ${i}`,
        clientId: "cli_019f86b3c0007c2a8f1d4e5b6a798081",
        organizationId: null,
        pipelineId: "pipe_sales",
        stageId: "stage_new",
        status: "open",
        lifecycle: "active",
        amountMinor: 1_250_000 + i,
        currency: "EUR",
        expectedCloseDate: null,
        responsibleMemberId: null,
        lostReason: null,
        closedAt: null,
        version: 1,
        createdAt: occurredAt,
        updatedAt: occurredAt
      }
      const [id, eventId] = [yield* newId("dlv"), yield* newId("evt")]
      const work: Work = { id, eventId, endpoint: i % endpoints, occurredAt, data: JSON.stringify({ deal }) }
      return work
    })
  )

/** A system that makes deliveries, with its own process and database. */
export interface Contender {
  readonly name: string
  readonly pid: number
  /** Adds all of the work at once. */
  readonly give: (work: ReadonlyArray<Work>) => Effect.Effect<void, SqlError.SqlError | BenchFailed>
  /** Whether all of the added work is recorded as done. */
  readonly done: Effect.Effect<boolean, SqlError.SqlError | BenchFailed>
}
