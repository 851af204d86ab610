/** Terms of claims that a test makes itself. */
import type { SqlClient } from "effect/sql"
import type { Limits } from "../../src/platform/background/Slots.ts"

/** A time of the test's, as the database's clock would tell it. */
export const timeOf = (sql: SqlClient.SqlClient, at: Date) => sql`${at}::timestamptz`

/** So many permits, for whatever channels and projects. */
export const limitsOf = (free: number): Limits => ({ free, keys: [], tenants: [], newKey: free, newTenant: free })
