/** Members and organizations (contract §7). Project files create them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Member, Organization } from "../api/crm/Directory.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { type Columns, columnsOf, selectList } from "../sql/Columns.ts"
import { statement } from "../sql/Database.ts"
import { pageConditionById, pageLimit, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"

const members = columnsOf(Member.fields, { active: "boolean" })
const organizations = columnsOf(Organization.fields, { archived: "boolean" })

/** Makes the lists of members and of organizations, by id. */
export const makeDirectory = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  const lists =
    <Item extends { readonly id: string }>(operation: string, table: string, columns: Columns) =>
    (projectId: ProjectId, query: PageQuery) =>
      pages.readById({ projectId, operation, filters: {} }, query, (window) =>
        statement(list<Item>(sql, { projectId, table, columns }, window))
      )
  return {
    members: lists<Member>("listMembers", "members", members),
    organizations: lists<Organization>("listOrganizations", "organizations", organizations)
  }
})

const list = <Item extends object>(
  sql: SqlClient.SqlClient,
  { columns, projectId, table }: { readonly projectId: ProjectId; readonly table: string; readonly columns: Columns },
  window: Window
) => sql<Item>`
  SELECT ${sql.literal(selectList(columns))} FROM ${sql(table)}
  WHERE project_id = ${projectId} ${pageConditionById(sql, window.after)}
  ORDER BY id ${pageLimit(sql, window)}`
