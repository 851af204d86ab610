/** Queued deliveries, each of its own event. */
import type { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import type { ProjectId } from "../../../src/api/schema/Ids.ts"
import { eventType, traceparent } from "./Work.ts"

/** Adds deliveries to the installations of a project, an equal part to each. */
export const queueFor = (
  sql: PgClient.PgClient,
  project: ProjectId,
  installations: ReadonlyArray<string>,
  deliveries: number
) =>
  Effect.andThen(
    sql`
      WITH happened AS MATERIALIZED (
        SELECT n, new_id('evt', at) AS id, at
        FROM generate_series(1, ${deliveries}::int) n, LATERAL (SELECT now() - n * interval '1 millisecond') AS past (at)
      ),
      event AS (
        INSERT INTO events (project_id, id, type, data, traceparent, occurred_at)
        SELECT ${project}::text, id, ${eventType}::text, json_build_object('deal', NULL), ${traceparent}::text, at
        FROM happened
      )
      INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
      SELECT ${project}::text, new_id('dlv', at), (${installations}::text[])[1 + n % ${installations.length}::int], id, at, at
      FROM happened`,
    sql`VACUUM ANALYZE events, deliveries`
  )
