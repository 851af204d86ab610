/** Members, organizations, and pipelines with their stages (contract §7). Project files create them. */
import { Member, Organization, type Pipeline } from "../api/crm/Directory.ts"
import { type Columns, columnsOf, selectList } from "../sql/Columns.ts"
import { makeListById, pageConditionById, pageLimit } from "../http/pages/Pages.ts"

const members = columnsOf(Member.fields, { active: "boolean" })
const organizations = columnsOf(Organization.fields, { archived: "boolean" })

const makeList = <Item extends { readonly id: string }>(operation: string, table: string, columns: Columns) =>
  makeListById(
    operation,
    (sql, projectId, window) => sql<Item>`
    SELECT ${sql.literal(selectList(columns))} FROM ${sql(table)}
    WHERE project_id = ${projectId} ${pageConditionById(sql, window.after)}
    ORDER BY id ${pageLimit(sql, window)}`
  )

export const makeListMembers = makeList<Member>("listMembers", "members", members)
export const makeListOrganizations = makeList<Organization>("listOrganizations", "organizations", organizations)

export const makeListPipelines = makeListById(
  "listPipelines",
  (sql, projectId, window) => sql<Pipeline>`
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
)
