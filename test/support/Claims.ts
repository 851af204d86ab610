/** Terms of claims that a test makes itself. */
import type { SqlClient } from "effect/sql"
import type { Limits } from "../../src/platform/background/Slots.ts"

/** A time of the test, as the database's clock. */
export const timeOf = (sql: SqlClient.SqlClient, at: Date) => sql`${at}::timestamptz`

/** Limits with this number of permits in all, for each channel and for each project. */
export const limitsOf = (free: number): Limits => ({ free, keys: [], tenants: [], newKey: free, newTenant: free })
