/** Pipelines with their stages (contract §7). Project files create them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Pipeline } from "../api/crm/Pipelines.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { statement } from "../sql/Database.ts"
import { pageConditionById, pageLimit, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"

export const makeListPipelines = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  return (projectId: ProjectId, query: PageQuery) =>
    pages.readById({ projectId, operation: "listPipelines", filters: {} }, query, (window) =>
      statement(list(sql, projectId, window))
    )
})

const list = (sql: SqlClient.SqlClient, projectId: ProjectId, window: Window) => sql<Pipeline>`
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
