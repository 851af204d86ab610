/** SQL reads of segments. */
import type { SqlClient } from "effect/sql"
import type { Segment } from "../../api/campaigns/Campaigns.ts"
import type { ProjectId } from "../../api/Ids.ts"
import { selected } from "../../platform/Columns.ts"
import { following, type Window } from "../../platform/Pages.ts"

const record = selected({
  id: "id",
  name: "name",
  description: "description",
  contactCount: ["contact_count", "integer"],
  createdAt: ["created_at", "timestamptz"],
  updatedAt: ["updated_at", "timestamptz"]
})

export const list = (sql: SqlClient.SqlClient, projectId: ProjectId, { after, limit }: Window) => sql<Segment>`
  SELECT ${sql.literal(record)} FROM segments
  WHERE project_id = ${projectId} ${following(sql, "segments", projectId, after)}
  ORDER BY created_at DESC, id DESC
  LIMIT ${limit}`
