/** The commands with which operators list, show and retry deliveries (contract §13). */
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { Operator } from "../../operators/Audit.ts"
import { lookupOne } from "../../sql/Lookups.ts"
import { Notifier } from "../../outbox/Notifier.ts"
import { lacks, Refused, requireProject } from "../../operators/Refusals.ts"
import { complete, type Range } from "../../operators/Search.ts"
import { details } from "./DeliveryDetails.ts"
import { type Filter, find } from "./DeliveryList.ts"
import * as Installations from "../Installations.ts"
import { notRetriable, retryFor } from "./Deliveries/Retry.ts"

export const listDeliveries = Effect.fn("listDeliveries")(function* (
  projectId: ProjectId,
  filter: Filter,
  range: Range
) {
  const { installationId } = filter
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  if (installationId !== null && !(yield* Installations.exists(sql, projectId, installationId)))
    return yield* lacks(projectId, "installation", installationId)
  return yield* complete(
    (range) => find(sql, projectId, filter, range),
    range,
    ({ id }) => id
  )
})

export const showDelivery = Effect.fn("showDelivery")(function* (projectId: ProjectId, id: string) {
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  const delivery = yield* lookupOne(sql, details(sql), { projectId, id })
  return delivery ?? (yield* lacks(projectId, "delivery", id))
})

/** Returns a dead delivery to the queue, at the start of its retry schedule. */
export const retryDelivery = Effect.fn("retryDelivery")(function* (projectId: ProjectId, id: string) {
  const sql = yield* SqlClient.SqlClient
  const { actor } = yield* Operator
  const at = new Date(yield* Clock.currentTimeMillis)
  const [verdict] = yield* retryFor(sql, actor, projectId, id, at)
  if (verdict === undefined) {
    yield* requireProject(sql, projectId)
    return yield* lacks(projectId, "delivery", id)
  }
  const { installationId, refusal } = verdict
  if (refusal !== null)
    return yield* new Refused({ message: `Delivery "${id}" can't be retried: ${notRetriable[refusal] ?? refusal}` })
  yield* (yield* Notifier).appended(projectId, [installationId])
})
