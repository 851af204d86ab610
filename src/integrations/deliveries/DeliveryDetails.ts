/** A delivery with its event and its attempts, as the API, the commands and the console show it. */
import { Struct } from "effect"
import type { SqlClient } from "effect/sql"
import { DeliveryAttempt, type DeliveryDetails } from "../../api/integrations/Deliveries.ts"
import { selectList } from "../../sql/Columns.ts"
import { type LookupStatement, plannedOnce } from "../../sql/Lookups.ts"
import { columnsOf, type Delivery } from "./DeliveryList.ts"

/**
 * An entry of the attempt log. Entries for lost leases and entries of earlier versions of the service have no `endpointUrl`.
 * Entries without a stored answer have no `responseBody`.
 */
export type LoggedAttempt = Omit<DeliveryAttempt, "endpointUrl" | "responseBody"> &
  Partial<Pick<DeliveryAttempt, "endpointUrl" | "responseBody">>

export interface Details extends Delivery {
  readonly log: ReadonlyArray<LoggedAttempt>
  /** Why the delivery is dead, if its last attempt is not the reason (for example, its webhook was disabled). Otherwise null. */
  readonly deadCode: string | null
  readonly eventTime: string
  readonly eventData: DeliveryDetails["event"]["data"]
  readonly traceparent: string
}

const columns = `${columnsOf("deliveries")}, deliveries.attempt_log AS log, dead_code AS "deadCode",
  events.data AS "eventData", traceparent, ${selectList({ eventTime: ["occurred_at", "timestamptz"] })}`

export const details =
  (sql: SqlClient.SqlClient): LookupStatement<Details> =>
  (key) =>
    sql`
    SELECT ${sql.literal(columns)} FROM ${key}
      LEFT JOIN deliveries ON deliveries.project_id = key.project_id AND deliveries.id = key.id
      LEFT JOIN events ON events.project_id = deliveries.project_id AND events.id = deliveries.event_id
    WHERE ${sql.literal(plannedOnce)}
    ORDER BY ordinal`

/** Returns the attempts of a delivery with all members in the order of the contract. jsonb does not keep this order. */
export const attemptsOf = ({ log }: Details): ReadonlyArray<DeliveryAttempt> =>
  log.map((attempt) =>
    Struct.pick({ endpointUrl: null, responseBody: null, ...attempt }, Struct.keys(DeliveryAttempt.fields))
  )
