/** What the command `project list` shows (contract §13). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { selectList } from "../sql/Columns.ts"
import { type Found, pageOf, type Range } from "../operators/Search.ts"

interface Listed {
  readonly projectId: string
  readonly name: string
  readonly createdAt: string
}

/** Lists projects by id, including projects whose deletion was interrupted. */
export const listProjects = Effect.fn("listProjects")(function* ({
  after,
  limit
}: Range): Effect.fn.Return<Found<Listed>, never, SqlClient.SqlClient> {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* Effect.orDie(sql<Listed>`
    SELECT ${sql.literal(columns)} FROM projects
    WHERE project_id > ${after ?? ""} ORDER BY project_id LIMIT ${limit + 1}::int`)
  return pageOf(rows, limit, ({ projectId }) => projectId)
})

const columns = selectList({ projectId: "project_id", name: "name", createdAt: ["created_at", "timestamptz"] })
