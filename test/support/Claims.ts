/** Parameters of claims that tests make. */
import type { SqlClient } from "effect/sql"
import type { Limits } from "../../src/platform/background/Slots.ts"

/** Returns SQL for a time of the test, in place of the database's clock. */
export const timeOf = (sql: SqlClient.SqlClient, at: Date) => sql`${at}::timestamptz`

/** Returns limits with this number of permits in total, for each channel and for each project. */
export const limitsOf = (free: number): Limits => ({ free, keys: [], tenants: [], newKey: free, newTenant: free })
