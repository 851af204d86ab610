/** Members, organizations, and pipelines with their stages (contract §7). Project files create them. */
import { Effect } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { Member, Organization } from "../api/crm/Directory.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { type Columns, columnsOf, selectList } from "../sql/Columns.ts"
import { statement } from "../sql/Database.ts"
import { pageConditionById, pageLimit, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"
import type { Pipeline } from "../api/crm/Pipelines.ts"

const members = columnsOf(Member.fields, { active: "boolean" })
const organizations = columnsOf(Organization.fields, { archived: "boolean" })

/** Makes the lists, by id. */
export const makeDirectory = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  const lists =
    <Item extends { readonly id: string }>(
      operation: string,
      list: (projectId: ProjectId, window: Window) => Statement.Statement<Item>
    ) =>
    (projectId: ProjectId, query: PageQuery) =>
      pages.readById({ projectId, operation, filters: {} }, query, (window) => statement(list(projectId, window)))
  return {
    members: lists("listMembers", list<Member>(sql, "members", members)),
    organizations: lists("listOrganizations", list<Organization>(sql, "organizations", organizations)),
    pipelines: lists("listPipelines", listPipelines(sql))
  }
})

const list =
  <Item extends object>(sql: SqlClient.SqlClient, table: string, columns: Columns) =>
  (projectId: ProjectId, window: Window) =>
    sql<Item>`
  SELECT ${sql.literal(selectList(columns))} FROM ${sql(table)}
  WHERE project_id = ${projectId} ${pageConditionById(sql, window.after)}
  ORDER BY id ${pageLimit(sql, window)}`

const listPipelines = (sql: SqlClient.SqlClient) => (projectId: ProjectId, window: Window) =>
  sql<Pipeline>`
  SELECT id, name,
    id = coalesce((SELECT default_pipeline_id FROM projects WHERE project_id = ${projectId}), '') AS "isDefault", (
      SELECT coalesce(json_agg(json_build_object('id', stages.id, 'name', stages.name) ORDER BY position), '[]')
      FROM stages WHERE stages.project_id = ${projectId} AND pipeline_id = page.id
    ) AS stages
  FROM (
    SELECT id, name FROM pipelines
    WHERE project_id = ${projectId} ${pageConditionById(sql, window.after)}
    ORDER BY id ${pageLimit(sql, window)}
  ) page ORDER BY id`
