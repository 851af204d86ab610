/** The lists of commands: their pages, their filters, and their bounds (contract §13). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Redacted, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { eventTypes } from "../../src/api/integrations/Events.ts"
import { TestServer } from "../support/TestServer.ts"
import { at, documentOf, failure, run } from "./Cli.support.ts"

type Sql = SqlClient.SqlClient

const installations = ["ins_0", "ins_1", "ins_2"]
const states = ["pending", "dead", "delivered"]
const statuses = ["retrying", "unknown", "sent"]

/** Several records have one time. */
const time = "timestamptz '2026-01-01' + n / 3 * interval '1 second'"
const n = (count: number, sql: Sql) => sql`generate_series(0, ${count - 1}::int) n`

/** Every list: its command, the member with the id of an item, and its records. */
const lists: Readonly<
  Record<
    string,
    {
      readonly command: ReadonlyArray<string>
      readonly id: string
      readonly flag?: "--after"
      readonly insert: (sql: Sql, projectId: string, count: number) => Effect.Effect<unknown>
    }
  >
> = {
  deliveries: {
    command: ["deliveries", "list"],
    id: "deliveryId",
    insert: (sql, projectId, count) =>
      Effect.all([
        sql`
          INSERT INTO installations (project_id, id, name, status)
          SELECT ${projectId}, id, 'Shop', 'active' FROM unnest(${installations}::text[]) id`,
        sql`
          INSERT INTO events (project_id, id, type, data, traceparent, occurred_at)
          SELECT ${projectId}, 'evt_' || n, (${[...eventTypes]}::text[])[1 + n % ${eventTypes.length}::int], '{}', '', now()
          FROM ${n(eventTypes.length, sql)}`,
        sql`
          INSERT INTO deliveries (project_id, id, installation_id, event_id, status, available_at, finished_at, dead_code,
            attempt_log, created_at)
          SELECT ${projectId}, new_id('dlv', at), 'ins_' || n % 3, 'evt_' || n / 9 % ${eventTypes.length}::int, status,
            CASE status WHEN 'pending' THEN at END, CASE WHEN status <> 'pending' THEN at END,
            CASE status WHEN 'dead' THEN 'expired' END,
            CASE status WHEN 'delivered' THEN '[{"statusCode": 204}]' ELSE '[]' END::jsonb, at
          FROM ${n(count, sql)}, LATERAL (
            SELECT ${sql.literal(time)} AS at, (${states}::text[])[1 + n / 3 % 3] AS status
          ) made`
      ]).pipe(Effect.orDie)
  },
  messages: {
    command: ["messages", "list"],
    id: "messageId",
    insert: (sql, projectId, count) =>
      sql`
        INSERT INTO messages (project_id, id, conversation_id, channel_id, provider_type, address, text, status, attempts,
          attempting, attempt_log, traceparent, created_at, updated_at)
        SELECT ${projectId}, new_id('msg', ${sql.literal(time)}), 'con', 'chan', 'sandbox', 'a', 'Text',
          (${statuses}::text[])[1 + n % 3], 1, false, '[]', '', ${sql.literal(time)}, now()
        FROM ${n(count, sql)}`.pipe(Effect.orDie)
  },
  webhooks: {
    command: ["webhooks", "list"],
    id: "installationId",
    flag: "--after",
    insert: (sql, projectId, count) =>
      Effect.all([
        sql`
          INSERT INTO installations (project_id, id, name, status)
          SELECT ${projectId}, 'ins_' || n, 'Shop', 'active' FROM ${n(count, sql)}`,
        sql`
          INSERT INTO webhooks (project_id, installation_id, endpoint_url, event_types, enabled, version)
          SELECT ${projectId}, 'ins_' || n, 'https://shop.example.com/', '{}', true, 1 FROM ${n(count, sql)}`,
        sql`
          INSERT INTO endpoint_health (project_id, installation_id) SELECT ${projectId}, 'ins_' || n FROM ${n(count, sql)}`
      ]).pipe(Effect.orDie)
  },
  tokens: {
    command: ["token", "list"],
    id: "keyId",
    insert: (sql, projectId, count) =>
      sql`
        INSERT INTO api_keys (project_id, key_id, token_hash, name, scopes, lifetime, expires_at, created_at)
        SELECT ${projectId}, substr(md5(${projectId} || n), 1, 12), '', 'Key', '{}', '1 day', now(), ${sql.literal(time)}
        FROM ${n(count, sql)}`.pipe(Effect.orDie)
  },
  audit: {
    command: ["audit", "list"],
    id: "target",
    insert: (sql, projectId, count) =>
      sql`
        INSERT INTO audit_entries (project_id, id, at, actor, action, target, detail)
        SELECT ${projectId}, new_id('aud', ${sql.literal(time)}), ${sql.literal(time)}, 'me', 'webhook.test', 'ins_' || n, '{}'
        FROM ${n(count, sql)}`.pipe(Effect.orDie)
  },
  replays: {
    command: ["deliveries", "replays"],
    id: "replayId",
    insert: (sql, projectId, count) =>
      sql`
        WITH installation AS (
          INSERT INTO installations (project_id, id, name, status) VALUES (${projectId}, 'ins', 'Shop', 'active')
        ),
        webhook AS (
          INSERT INTO webhooks (project_id, installation_id, endpoint_url, event_types, enabled, version)
          VALUES (${projectId}, 'ins', 'https://shop.example.com/', '{}', true, 1)
        )
        INSERT INTO replays (project_id, id, installation_id, since, until, event_types, status, state, position,
          created_at, finished_at)
        SELECT ${projectId}, new_id('rpl', ${sql.literal(time)}), 'ins', now(), now(), '{}', 'dead', 'completed', '',
          now(), now()
        FROM ${n(count, sql)}`.pipe(Effect.orDie)
  }
}

const Page = Schema.Struct({
  items: Schema.Array(Schema.Record(Schema.String, Schema.Unknown)),
  next: Schema.NullOr(Schema.String)
})
const decodePage = Schema.decodeUnknownSync(Page)

/** Creates a project with records of a list, and returns its pages. */
const openList = Effect.fnUntraced(function* (name: string, count: number) {
  const { command, flag = "--before", id, insert } = lists[name] ?? assert.fail(name)
  const { databaseUrl, seed, sql } = yield* TestServer
  const { projectId } = yield* seed()
  // However slow the machine is.
  yield* Effect.orDie(
    sql.withTransaction(Effect.andThen(sql`SET LOCAL statement_timeout = 0`, insert(sql, projectId, count)))
  )
  const env = at(Redacted.make(databaseUrl))
  const list = (flags: ReadonlyArray<string>, terminal = false) =>
    run([...command, "--project", projectId, ...flags], { env, terminal })
  const page = (...flags: ReadonlyArray<string>) =>
    Effect.map(list([...flags, "--json"]), (ended) => decodePage(documentOf(ended)))
  /** Returns the items of all pages. */
  const walk = Effect.fnUntraced(function* (limit: number, ...flags: ReadonlyArray<string>) {
    const items: Array<Readonly<Record<string, unknown>>> = []
    for (let next: string | null = ""; next !== null;) {
      const found: typeof Page.Type = yield* page(...flags, "--limit", `${limit}`, ...(next === "" ? [] : [flag, next]))
      items.push(...found.items)
      assert.isTrue(found.next === null || found.items.length === limit)
      next = found.next
    }
    return items
  })
  return {
    projectId,
    sql,
    flag,
    list,
    page,
    walk,
    idsOf: (items: typeof Page.Type.items) => items.map((item) => String(item[id]))
  }
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("every list of the commands", (it) => {
  for (const name of Object.keys(lists)) {
    it.effect(`shows ${name} in pages of every size, each once, and the first 100 without a limit`, function* () {
      const { flag, idsOf, list, page, walk } = yield* openList(name, 205)
      const first = yield* page()
      assert.lengthOf(first.items, 100)
      assert.isNotNull(first.next)
      const all = yield* page("--limit", "1000")
      // A project has a key of its own.
      const count = name === "tokens" ? 206 : 205
      assert.deepStrictEqual([new Set(idsOf(all.items)).size, all.items.length, all.next], [count, count, null])
      for (const limit of [103, count]) assert.deepStrictEqual(yield* walk(limit), all.items)
      const next = ` ${flag} ${first.next}`
      assert.include((yield* list([], true)).stdout, next)
      for (const ended of [yield* list([]), yield* list(["--limit", `${count}`], true)])
        assert.notInclude(ended.stdout, flag)
      for (const limit of ["0", "1001", "x"]) assert.strictEqual((yield* list(["--limit", limit])).status, 2)
    })
  }

  it.effect("fails for a place that does not exist", function* () {
    const { list } = yield* openList("messages", 1)
    const { status, stderr } = yield* list(["--before", "msg_none"])
    assert.strictEqual(status, 1)
    assert.include(stderr, 'has no message "msg_none"')
    const keys = yield* openList("tokens", 1)
    assert.deepStrictEqual(
      yield* keys.list(["--before", "none"]),
      failure(1, "There is no such key: its id is the 12 characters of the token between `dk_` and the next `_`")
    )
  })

  it.effect("finds what matches far behind what does not, and the end", function* () {
    const { page, projectId, sql } = yield* openList("deliveries", 21_000)
    yield* Effect.orDie(sql`
      UPDATE deliveries SET event_type = CASE WHEN id IN (
          (SELECT min(id) FROM deliveries WHERE project_id = ${projectId}),
          (SELECT max(id) FROM deliveries WHERE project_id = ${projectId})
        ) THEN 'crm.task.completed.v1' ELSE 'crm.deal.created.v1' END
      WHERE project_id = ${projectId}`)
    const flags = ["--type", "crm.task.completed.v1", "--limit"]
    const { items } = yield* page(...flags, "2")
    assert.lengthOf(items, 2)
    const first = yield* page(...flags, "1")
    assert.deepStrictEqual(first.items, items.slice(0, 1))
    const second = yield* page(...flags, "1", "--before", first.next ?? assert.fail())
    assert.deepStrictEqual([second.items, second.next], [items.slice(1), null])
  })
})
