/** SQL reads of deals. */
import type { SqlClient } from "effect/sql"
import type { Deal, DealLifecycleFilter, DealStatusFilter } from "../../api/crm/Deals.ts"
import type { ProjectId } from "../../api/Ids.ts"
import { selected } from "../../platform/Columns.ts"
import { lookup } from "../../platform/Lookups.ts"
import { following, type Window } from "../../platform/Pages.ts"
import { columns } from "./Record.ts"

type Sql = SqlClient.SqlClient

const record = selected(columns)

/** Looks up a deal by id. */
export const find = (sql: Sql) => lookup<Deal>(sql, "deals", columns)

export const list = (
  sql: Sql,
  projectId: ProjectId,
  lifecycle: DealLifecycleFilter,
  status: DealStatusFilter,
  { after, limit }: Window
) => {
  const ofOne = (lifecycle: Exclude<DealLifecycleFilter, "all">) => sql`
    (SELECT * FROM deals
     WHERE project_id = ${projectId} AND lifecycle = ${lifecycle}
       ${status === "all" ? sql.literal("") : sql`AND status = ${status}`}
       ${following(sql, "deals", projectId, after)}
     ORDER BY created_at DESC, id DESC
     LIMIT ${limit})`
  return sql<Deal>`
    SELECT ${sql.literal(record)}
    FROM ${lifecycle === "all" ? sql`(${ofOne("active")} UNION ALL ${ofOne("archived")})` : ofOne(lifecycle)} AS deal
    ORDER BY deal.created_at DESC, deal.id DESC
    LIMIT ${limit}`
}
