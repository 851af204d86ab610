/** Deliveries without a notice, and a loop that fails: both recover without help (contract §10). */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { open, receiver, serve } from "./Deliveries.support.ts"
import { until, untilRows } from "../../support/Waiting.ts"

const created = ["crm.deal.created.v1"]

/** Commits an event with its delivery, like a process that is killed before its NOTIFY. */
const commit = (sql: SqlClient.SqlClient, projectId: string) =>
  Effect.orDie(sql`
    WITH event AS (
      INSERT INTO events (project_id, id, type, data, traceparent, occurred_at)
      VALUES (${projectId}, new_id('evt', now()), 'crm.deal.created.v1', '{"deal": null}',
        '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', now())
      RETURNING id
    )
    INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
    SELECT ${projectId}::text, new_id('dlv', now()), 'shop', id, now(), now() FROM event`)

describe("a delivery that was committed without a notice", () => {
  it.live("is found by the sweep on idle and on busy endpoints", function* () {
    const server = yield* serve()
    const shop = yield* receiver()
    const project = yield* open(server)
    yield* project.subscribe("shop", shop.url, created)
    yield* commit(server.sql, project.projectId)
    yield* until(() => shop.hits.length === 1)
    yield* project.created()
    yield* project.finished
    yield* commit(server.sql, project.projectId)
    yield* until(() => shop.hits.length === 3)
  })

  it.live("is dead-lettered when its webhook was disabled meanwhile", function* () {
    const server = yield* serve()
    const project = yield* open(server)
    yield* project.subscribe("shop", "http://127.0.0.1:9/", created)
    yield* Effect.orDie(server.sql`UPDATE webhooks SET enabled = false WHERE project_id = ${project.projectId}`)
    yield* commit(server.sql, project.projectId)
    yield* untilRows(project.deliveries(), (rows) => rows.length === 1 && rows.every(({ status }) => status === "dead"))
  })
})

describe("a notice whose claim fails", () => {
  it.live("is not lost: the next claim visits its endpoint", function* () {
    const server = yield* serve()
    const shop = yield* receiver()
    const project = yield* open(server)
    const { sql } = project
    yield* project.subscribe("shop", shop.url, created)
    // The first claim fails, and the sweep marks nothing.
    yield* sql`CREATE SEQUENCE claims`
    yield* sql`
      CREATE FUNCTION refuse_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('claims') = 1 THEN RAISE EXCEPTION 'away' USING ERRCODE = 'cannot_connect_now'; END IF;
        RETURN NEW;
      END $$`
    yield* sql`
      CREATE TRIGGER refuse_first BEFORE UPDATE ON deliveries FOR EACH ROW
      WHEN (NEW.status = 'delivering') EXECUTE FUNCTION refuse_first()`
    yield* sql`
      CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`
    yield* sql`
      CREATE TRIGGER skip BEFORE UPDATE ON endpoint_health FOR EACH ROW
      WHEN (OLD.next_due_at IS NULL AND NEW.next_due_at IS NOT NULL) EXECUTE FUNCTION skip()`
    yield* project.created()
    yield* until(() => shop.hits.length === 1)
  })
})

describe("a loop whose record fails as a defect", () => {
  it.live("is restarted and continues, and repeats deliveries that were not recorded", function* () {
    const server = yield* serve({ WEBHOOK_TIMEOUT: "60s" })
    const shop = yield* receiver()
    const project = yield* open(server)
    const { projectId, sql } = project
    yield* project.subscribe("shop", shop.url, created)
    yield* sql`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'check_violation'; END $$`
    yield* sql`
      CREATE TRIGGER refuse BEFORE UPDATE ON deliveries FOR EACH ROW
      WHEN (NEW.status = 'delivered') EXECUTE FUNCTION refuse()`
    yield* project.created()
    yield* until(() => shop.hits.length === 1)
    yield* Effect.sleep("200 millis")
    yield* sql`DROP TRIGGER refuse ON deliveries`
    yield* project.created()
    yield* untilRows(project.deliveries(), (rows) => rows.some(({ status }) => status === "delivered"))
    assert.strictEqual((yield* project.health()).inFlight, 1)
    yield* sql`UPDATE deliveries SET leased_until = now() WHERE project_id = ${projectId} AND status = 'delivering'`
    yield* project.finished
    assert.strictEqual(shop.hits.length, 3)
    assert.strictEqual((yield* project.health()).inFlight, 0)
  })
})
