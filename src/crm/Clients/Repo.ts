/** The SQL of clients that are read. Every statement names the project first. */
import type { SqlClient } from "effect/sql"
import type { Client, ClientStatusFilter } from "../../api/crm/Clients.ts"
import type { ProjectId } from "../../api/Ids.ts"
import { selected } from "../../platform/Columns.ts"
import { lookup } from "../../platform/Lookups.ts"
import { following, type Window } from "../../platform/Pages.ts"
import { columns } from "./Record.ts"

const record = selected(columns)

/** The look-up of a client. */
export const find = (sql: SqlClient.SqlClient) => lookup<Client>(sql, "clients", columns)

export const list = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  status: ClientStatusFilter,
  { after, limit }: Window
) =>
  sql<Client>`
    SELECT ${sql.literal(record)} FROM clients
    WHERE project_id = ${projectId}
      ${status === "all" ? sql.literal("") : sql`AND status = ${status}`}
      ${following(sql, "clients", projectId, after)}
    ORDER BY created_at DESC, id DESC
    LIMIT ${limit}`
