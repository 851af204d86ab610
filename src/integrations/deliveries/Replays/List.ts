/** Replays as the API, the commands and the console show them. */
import type { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../../../api/schema/Ids.ts"
import type { Replay } from "../../../api/integrations/Replays.ts"
import { type Columns, selectList } from "../../../sql/Columns.ts"
import { type LookupStatement, plannedOnce } from "../../../sql/Lookups.ts"
import { isIn, type RangeByAge, scanLimit } from "../../../operators/Search.ts"

interface Listed extends Omit<Replay, "id"> {
  readonly replayId: string
  readonly installationId: InstallationId
}

const columns = {
  installationId: "installation_id",
  since: ["since", "timestamptz"],
  until: ["until", "timestamptz"],
  eventTypes: "event_types",
  status: "status",
  state: "state",
  made: "made",
  createdAt: ["created_at", "timestamptz"],
  finishedAt: ["finished_at", "timestamptz"]
} satisfies Columns
const listed = selectList({ replayId: "id", ...columns })
const read = selectList({ id: "id", ...columns }, "replays")

/** Lists replays, newest first. Those of an installation are looked for among the newest `scanLimit` of the range. */
export const list = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  { installationId, ...range }: RangeByAge & { readonly installationId: string | null }
) => sql<Listed>`
  SELECT ${sql.literal(listed)} FROM (
    SELECT * FROM replays WHERE project_id = ${projectId} AND ${isIn(sql, "rpl", range)}
    ORDER BY id DESC LIMIT ${installationId === null ? range.limit + 1 : scanLimit}::int
  ) scanned
  WHERE ${installationId}::text IS NULL OR installation_id = ${installationId}
  ORDER BY id DESC LIMIT ${range.limit + 1}::int`

interface Details extends Replay {
  readonly installationId: InstallationId
}

export const details =
  (sql: SqlClient.SqlClient): LookupStatement<Details> =>
  (key) =>
    sql`
    SELECT ${sql.literal(read)} FROM ${key}
      LEFT JOIN replays ON replays.project_id = key.project_id AND replays.id = key.id
    WHERE ${sql.literal(plannedOnce)}
    ORDER BY ordinal`
