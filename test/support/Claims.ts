/** Parameters of claims that tests make. */
import type { SqlClient } from "effect/sql"
import type { Failing } from "../../src/integrations/deliveries/DeliveryLoop/Record.ts"
import type { Rooms } from "../../src/integrations/deliveries/DeliveryLoop/Slots.ts"
import type { Limits } from "../../src/platform/background/Slots.ts"

/** Returns SQL for a time of the test, in place of the database's clock. */
export const timeOf = (sql: SqlClient.SqlClient, at: Date) => sql`${at}::timestamptz`

/** Returns limits with this number of permits in total, for each channel and for each project. */
export const limitsOf = (free: number): Limits => ({ free, keys: [], tenants: [], newKey: free, newTenant: free })

/** Free slots for the attempts of deliveries, all of which any project may take. */
export const roomsOf = (healthy: number, suspect: number): Rooms => ({
  healthy: { free: healthy, newcomer: healthy, holders: [] },
  suspect: { free: suspect, newcomer: suspect, holders: [] }
})

/** Terms with which no webhook is disabled as failing. */
export const neverFailing: Failing = { forMillis: 1e12, quietMillis: 1e12, attempts: 1 }
