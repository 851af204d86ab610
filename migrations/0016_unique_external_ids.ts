/**
 * Makes the external ids of a project's clients unique. A database whose clients share external ids stays as it is, and the migration
 * fails with three of them: which client keeps an id is for an operator to decide.
 */
import { Data, Effect } from "effect"
import { SqlClient } from "effect/sql"

interface Repeat {
  readonly projectId: string
  readonly externalId: string
  readonly ids: ReadonlyArray<string>
}

class ExternalIdsRepeat extends Data.TaggedError("ExternalIdsRepeat")<{ readonly repeats: ReadonlyArray<Repeat> }> {
  override get message() {
    const named = this.repeats.map(
      ({ externalId, ids, projectId }) =>
        `${JSON.stringify(externalId)} of the clients ${ids.join(" and ")} in the project ${projectId}`
    )
    return (
      `Clients of a project must have different external ids, but some share one: ${named.join("; ")}. ` +
      "With the version before, give all but one of the clients that share an id another one, or null (patchClient, or a project " +
      "file). Then migrate again"
    )
  }
}

const refuseRepeats = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const repeats = yield* sql<Repeat>`
    SELECT project_id AS "projectId", external_id AS "externalId", (array_agg(id ORDER BY created_at, id))[:2] AS ids
    FROM clients WHERE external_id IS NOT NULL
    GROUP BY project_id, external_id HAVING count(*) > 1
    ORDER BY project_id, external_id LIMIT 3`
  if (repeats.length > 0) return yield* new ExternalIdsRepeat({ repeats })
})

const dropIncomplete = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`DROP INDEX CONCURRENTLY IF EXISTS clients_external_id`
)

export default [
  refuseRepeats,
  // A client that the version before creates meanwhile may repeat an id. An incomplete index would keep its writes out.
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`
      CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS clients_external_id ON clients (project_id, external_id)
      WHERE external_id IS NOT NULL`
  ).pipe(Effect.tapError(() => Effect.andThen(dropIncomplete, refuseRepeats))),
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DROP INDEX CONCURRENTLY IF EXISTS clients_by_external_id`)
]
