/** The results of attempts between their end and their record, in one process. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { ServiceUnavailable } from "../../api/Problems.ts"
import { statement } from "../../platform/Database.ts"
import type { Claim } from "./Claim.ts"
import { disable } from "./DeadLetter.ts"
import * as Metrics from "../DeliveryMetrics.ts"
import { keyOf } from "./EndpointQueues.ts"
import { record, type Recorded, type Result, type Terms } from "./Record.ts"

/** Maximum number of results in one statement. */
const longestBatch = 500

interface Ended<L> {
  readonly lease: L
  readonly result: Result
}

export interface Results<L extends Claim> {
  /** Adds the result of an attempt. The first of a batch signals that there are some to record. */
  readonly add: (lease: L, result: Result) => void
  /** Marks the webhook of an endpoint that answered 410: it is disabled before results are recorded. */
  readonly addGone: (lease: L) => void
  /** Returns those that are not recorded. */
  readonly left: () => ReadonlyArray<Ended<L>>
  /**
   * Records a batch, and disables webhooks whose endpoints are gone or have failed for too long. A failure of the database
   * keeps the results, a defect drops them: their leases expire.
   */
  readonly record: Effect.Effect<void, ServiceUnavailable>
}

export interface Options<L> {
  readonly sql: SqlClient.SqlClient
  readonly terms: Terms
  readonly measured: boolean
  /** Signals that results are to be recorded. */
  readonly signal: () => void
  /** Called with the leases that have ended, recorded or dropped. */
  readonly ended: (leases: ReadonlyArray<L>) => void
  /** Called with the endpoints that are due after a record. */
  readonly due: (endpoints: ReadonlyArray<Recorded>) => void
}

export const make = <L extends Claim>({ due, ended, measured, signal, sql, terms }: Options<L>): Results<L> => {
  let results: Array<Ended<L>> = []
  /** Endpoints that answered 410 and are not disabled yet. */
  let gone: Array<L> = []

  /** Disables these webhooks. It precedes the record, as a dead delivery of an enabled webhook can be retried. */
  const disableGone = Effect.suspend(() => {
    const batch = gone
    gone = []
    return Effect.forEach(batch, (lease) => statement(disable(sql, lease, lease.endpointUrl, "gone")), {
      discard: true
    }).pipe(Effect.tapError(() => Effect.sync(() => void gone.push(...batch))))
  })

  const recordBatch = Effect.suspend(() => {
    const batch = results.slice(0, longestBatch)
    results = results.slice(longestBatch)
    const forget = Effect.sync(() => ended(batch.map(({ lease }) => lease)))
    const recorded = batch.map(({ result }) => result)
    return statement(record(sql, recorded, terms)).pipe(
      Effect.tapError(() => Effect.sync(() => void (results = [...batch, ...results]))),
      Effect.tapDefect(() => forget),
      Effect.tap(forget),
      Effect.tap((endpoints) => {
        due(endpoints.filter(({ isDue }) => isDue))
        // If this fails, the next failure of the endpoint disables its webhook.
        const failing = new Set(endpoints.filter(({ isFailing }) => isFailing).map(keyOf))
        if (failing.size === 0) return Effect.void
        const last = new Map(batch.map(({ lease }) => [keyOf(lease), lease]))
        const leases = [...last].flatMap(([key, lease]) => (failing.has(key) ? [lease] : []))
        return Effect.forEach(leases, (lease) => statement(disable(sql, lease, lease.endpointUrl, "failing")), {
          discard: true
        })
      }),
      Effect.andThen(measured ? Metrics.countResults(recorded) : Effect.void)
    )
  })

  return {
    add: (lease, result) => {
      if (results.push({ lease, result }) === 1) signal()
    },
    addGone: (lease) => void gone.push(lease),
    left: () => results,
    record: Effect.suspend(() => (gone.length > 0 ? disableGone : Effect.void)).pipe(
      Effect.andThen(Effect.suspend(() => (results.length > 0 ? Effect.uninterruptible(recordBatch) : Effect.void))),
      Effect.ensuring(Effect.sync(() => (results.length > 0 ? signal() : undefined)))
    )
  }
}
