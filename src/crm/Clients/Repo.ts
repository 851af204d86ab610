/** SQL reads of clients. */
import type { SqlClient } from "effect/sql"
import type { Client, ClientStatusFilter } from "../../api/crm/Clients.ts"
import type { ProjectId } from "../../api/Ids.ts"
import { selected } from "../../platform/Columns.ts"
import { lookup } from "../../platform/Lookups.ts"
import { following, type Window } from "../../platform/Pages.ts"
import { columns } from "./Record.ts"

const record = selected(columns)

/** Looks up a client by id. */
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
