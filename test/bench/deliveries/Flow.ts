/** Latency of events, from commit to arrival, in a flow of commands. */
import { Effect } from "effect"
import type { SqlError } from "effect/sql"
import { randomUUID } from "node:crypto"
import { quantile } from "../Figures.ts"
import { BenchFailed } from "../Stage.ts"
import type { Endpoints } from "./Endpoints.ts"
import type { Ours } from "./Ours.ts"
import { projectId } from "./Work.ts"

/** Creates a deal by a real request. */
const createDeal = ({ token, url }: Ours, title: string) =>
  Effect.tryPromise({
    try: async (signal) => {
      const headers = {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        "idempotency-key": `bench-${randomUUID()}`
      }
      const body = JSON.stringify({ title, amountMinor: 1_250_000, currency: "EUR" })
      const path = "/api/v1/developer/crm/deals"
      const answer = await fetch(url + path, { method: "POST", headers, body, signal })
      await answer.arrayBuffer()
      if (answer.status !== 201) throw new Error(`status ${answer.status}`)
    },
    catch: (cause) => new BenchFailed({ message: `No deal: ${String(cause)}` })
  })

/** The time of a delivery's commit in milliseconds since 1970. */
export interface Committed {
  readonly id: string
  readonly committed: number
}

/** Returns the commit times of deliveries' events. */
const commits = ({ sql }: Ours, deliveries: ReadonlyArray<string>) =>
  sql<Committed>`
    SELECT deliveries.id, extract(epoch FROM pg_xact_commit_timestamp(events.xmin))::float8 * 1000 AS committed
    FROM deliveries JOIN events ON events.project_id = deliveries.project_id AND events.id = event_id
    WHERE deliveries.project_id = ${projectId} AND deliveries.id = ANY(${deliveries}::text[])`

/** A source of events that go to one endpoint. */
export interface Source<E> {
  /** Commits the next event. */
  readonly commit: (i: number) => Effect.Effect<unknown, E>
  readonly commits: (deliveries: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<Committed>, E>
}

/**
 * Commits events; each follows the previous one, at least `pace` milliseconds after its start. Returns quantiles of the
 * latency in milliseconds.
 */
export const flowOf = Effect.fnUntraced(function* <E>(
  source: Source<E>,
  endpoints: Endpoints,
  events: number,
  pace: number
) {
  yield* endpoints.forget
  for (let i = 0; i < events; i++) {
    const from = performance.now()
    yield* source.commit(i)
    yield* Effect.sleep(Math.max(0, pace - (performance.now() - from)))
  }
  yield* endpoints.received(events)
  const arrivals = new Map(yield* endpoints.arrivals)
  const found = yield* source.commits([...arrivals.keys()])
  const delays = found.map(({ committed, id }) => (arrivals.get(id) ?? Number.NaN) - committed)
  if (delays.length < events) return yield* new BenchFailed({ message: "Deliveries came that nobody made" })
  return { p50: quantile(delays, 0.5), p95: quantile(delays, 0.95) }
})

/** Measures events of deals that requests create. */
export const flow = (service: Ours, endpoints: Endpoints, events: number, pace: number) =>
  flowOf(
    {
      commit: (i) => createDeal(service, `Analytical engine no. ${i}`),
      commits: (deliveries): Effect.Effect<ReadonlyArray<Committed>, BenchFailed | SqlError.SqlError> =>
        commits(service, deliveries)
    },
    endpoints,
    events,
    pace
  )
