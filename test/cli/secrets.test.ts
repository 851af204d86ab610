/** `secrets reseal` seals stored secrets with the current key; `doctor` reports which keys are still needed. */
import { assert, describe, providing } from "../support/Vitest.ts"
import { Effect, Fiber, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { ChannelId, ProjectId } from "../../src/api/schema/Ids.ts"
import { openConfig } from "../../src/messaging/providers/Connectors.ts"
import { SecretBox } from "../../src/secrets/SecretBox.ts"
import { subscribe } from "../support/Events.ts"
import { secretBox } from "../support/SecretBox.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import { cli, documentOf, type Ended } from "./Cli.support.ts"

const test = providing(TestDatabase.layer)

const newKey = () => randomBytes(32).toString("base64")
const [oldKey, key, lostKey] = [newKey(), newKey(), newKey()]

const under = (key: string, ...previous: ReadonlyArray<string>) => ({
  env: { SECRET_KEY: key, ...(previous.length === 0 ? {} : { SECRET_KEY_PREVIOUS: previous.join(",") }) }
})
const both = under(key, oldKey)
const reseal = (options = both) => Effect.map(cli(["secrets", "reseal", "--json"], options), documentOf)

const channels = [
  {
    id: "chat",
    providerType: "http",
    displayName: "Chat",
    config: { url: "https://chat.example/send", signingSecret: "whsec_aGlkZGVu" }
  },
  { id: "bot", providerType: "telegram", displayName: "Bot", config: { token: "4711:token" } }
]
const project = { id: "acme", name: "Acme" }
const apply = (file: object, options: { readonly env: Record<string, string> }) =>
  Effect.map(cli(["project", "apply", "-", "--json"], { ...options, stdin: JSON.stringify(file) }), documentOf)

const boxOf = (...keys: Parameters<typeof secretBox>) => Effect.provide(Effect.service(SecretBox), secretBox(...keys))

/** Stores webhooks, each with a retired secret and a current one that is sealed with a key. */
const storeWebhooks = Effect.fnUntraced(function* (projectId: string, names: ReadonlyArray<string>, key: string) {
  const sql = yield* SqlClient.SqlClient
  const { seal } = yield* boxOf(key)
  for (const name of names) {
    const sealed = yield* seal(["webhook", projectId, name], Redacted.make(`whsec_${name}`))
    yield* subscribe(sql, projectId, name)
    yield* sql`
      INSERT INTO webhook_secrets (project_id, installation_id, version, sealed, retires_at)
      VALUES (${projectId}, ${name}, 0, 'over', now() - interval '1 day'), (${projectId}, ${name}, 1, ${sealed}, 'infinity')`
  }
})

/** Stores headers of a webhook, which are sealed with a key. */
const storeHeaders = Effect.fnUntraced(function* (projectId: string, name: string, key: string) {
  const sql = yield* SqlClient.SqlClient
  const sealed = yield* (yield* boxOf(key)).seal(ownerOfHeaders(projectId, name), Redacted.make('{"x-a":"1"}'))
  yield* sql`UPDATE webhooks SET headers = ${sealed}, header_names = '{x-a}' WHERE installation_id = ${name}`
  return sealed
})

const ownerOfHeaders = (projectId: string, name: string) => ["headers of webhook", projectId, name]

/** Opens the headers of a webhook with a key. */
const openHeaders = Effect.fnUntraced(function* (projectId: string, name: string, key: string) {
  const sql = yield* SqlClient.SqlClient
  const [{ headers } = assert.fail()] = yield* sql<{ headers: Uint8Array }>`
    SELECT headers FROM webhooks WHERE installation_id = ${name}`
  return Redacted.value(yield* (yield* boxOf(key)).open(ownerOfHeaders(projectId, name), headers))
})

/** Opens the current secrets of webhooks with a key. */
const openWebhooks = Effect.fnUntraced(function* (projectId: string, key: string) {
  const sql = yield* SqlClient.SqlClient
  const { open } = yield* boxOf(key)
  const rows = yield* sql<{ id: string; sealed: Uint8Array }>`
    SELECT installation_id AS id, sealed FROM webhook_secrets
    WHERE project_id = ${projectId} AND retires_at = 'infinity' ORDER BY 1`
  return yield* Effect.forEach(rows, ({ id, sealed }) =>
    Effect.map(open(["webhook", projectId, id], sealed), Redacted.value)
  )
})

const keysFound = ({ stdout }: Ended) => /^(\w+) +keys +(.*)$/m.exec(stdout)?.slice(1) ?? []

describe("secrets reseal", () => {
  test("seals webhooks' secrets and channels' configs anew under SECRET_KEY, once", function* () {
    const sql = yield* SqlClient.SqlClient
    yield* apply({ project, channels }, under(oldKey))
    yield* storeWebhooks("acme", ["a", "b"], oldKey)
    assert.deepStrictEqual(yield* reseal(), { resealed: 4, failed: 0 })
    assert.deepStrictEqual(yield* reseal(), { resealed: 0, failed: 0 })
    assert.deepStrictEqual(yield* openWebhooks("acme", key), ["whsec_a", "whsec_b"])
    const box = yield* boxOf(key)
    const [chat = assert.fail()] = yield* sql<{ config: Uint8Array }>`SELECT config FROM channels WHERE id = 'chat'`
    const channel = { ...chat, projectId: ProjectId.make("acme"), channelId: ChannelId.make("chat") }
    const opened = yield* openConfig(box, { ...channel, providerType: "http" })
    assert.strictEqual(opened.providerType, "http")
    // A config opens only as that of its own provider.
    const other = openConfig(box, { ...channel, providerType: "telegram" })
    assert.strictEqual((yield* Effect.flip(other))._tag, "SecretUnreadable")
    // Without the old key, a file that leaves the configs out still changes nothing.
    const withoutConfig = channels.map(({ displayName, id, providerType }) => ({ displayName, id, providerType }))
    assert.deepInclude(yield* apply({ project, channels: withoutConfig }, under(key)), {
      unchanged: { project: 1, channels: 2 }
    })
  })

  test("seals the headers of webhooks anew, counts those that no key opens, and leaves those of a moved project", function* () {
    yield* apply({ project }, under(oldKey))
    yield* storeWebhooks("acme", ["a", "b", "c"], key)
    yield* storeHeaders("acme", "a", oldKey)
    const lost = yield* storeHeaders("acme", "b", lostKey)
    const sql = yield* SqlClient.SqlClient
    yield* sql`UPDATE projects SET move_state = 'switched'`
    assert.deepStrictEqual(yield* reseal(), { resealed: 0, failed: 1 })
    yield* sql`UPDATE projects SET move_state = NULL`
    const { stdout } = yield* cli(["secrets", "reseal"], both)
    assert.include(stdout, "Sealed 1 secret anew\n1 is opened by no key that is set:\n  headers of webhook acme/b\n")
    assert.strictEqual(yield* openHeaders("acme", "a", key), '{"x-a":"1"}')
    const [b] = yield* sql`SELECT headers FROM webhooks WHERE installation_id = 'b'`
    assert.deepStrictEqual(b, { headers: lost })
  })

  test("leaves headers unchanged that are replaced during the command", function* () {
    yield* apply({ project }, under(oldKey))
    yield* storeWebhooks("acme", ["a"], key)
    yield* storeHeaders("acme", "a", oldKey)
    const sql = yield* SqlClient.SqlClient
    const next = yield* (yield* boxOf(key)).seal(ownerOfHeaders("acme", "a"), Redacted.make('{"x-a":"2"}'))
    const command = yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`UPDATE webhooks SET headers = ${next}`
        const command = yield* Effect.forkDetach(reseal())
        yield* Effect.repeat(sql`SELECT FROM pg_locks WHERE NOT granted`, { until: (rows) => rows.length > 0 })
        return command
      })
    )
    assert.deepStrictEqual(yield* Fiber.join(command), { resealed: 0, failed: 0 })
    assert.strictEqual(yield* openHeaders("acme", "a", key), '{"x-a":"2"}')
  })

  test("seals all that is stored in several batches", function* () {
    yield* apply({ project }, under(oldKey))
    const sql = yield* SqlClient.SqlClient
    const { seal } = yield* boxOf(oldKey)
    const ids = Array.from({ length: 1_234 }, (_, n) => `c${n}`)
    const sealed = yield* Effect.forEach(ids, (id) => seal(["channel", "acme", id], Redacted.make("{}")))
    yield* sql`
      INSERT INTO channels (project_id, id, source_id, provider_type, display_name, status, config, connected_at)
      SELECT 'acme', id, id, 'sandbox', id, 'active', config, now()
      FROM unnest(${ids}::text[], ${sealed}::bytea[]) AS channel (id, config)`
    assert.deepStrictEqual(yield* reseal(), { resealed: 1_234, failed: 0 })
    assert.deepStrictEqual(yield* reseal(under(key)), { resealed: 0, failed: 0 })
  })

  test("counts secrets that no key opens, leaves them unchanged, and lists them", function* () {
    yield* apply({ project }, under(oldKey))
    yield* storeWebhooks("acme", ["lost"], lostKey)
    yield* storeWebhooks("acme", ["kept"], oldKey)
    const { status, stderr, stdout } = yield* cli(["secrets", "reseal"], both)
    assert.deepStrictEqual([status, stderr], [0, ""])
    assert.strictEqual(stdout, "Sealed 1 secret anew\n1 is opened by no key that is set:\n  webhook acme/lost\n")
    assert.deepStrictEqual(yield* reseal(), { resealed: 0, failed: 1 })
    assert.deepStrictEqual(yield* reseal(under(key, lostKey)), { resealed: 1, failed: 0 })
  })

  test("leaves a value unchanged that is replaced during the command", function* () {
    yield* apply({ project }, under(oldKey))
    yield* storeWebhooks("acme", ["a", "b"], oldKey)
    const sql = yield* SqlClient.SqlClient
    const { seal } = yield* boxOf(key)
    const next = yield* seal(["webhook", "acme", "a"], Redacted.make("whsec_rotated"))
    // The command has read both values, and waits to replace the first, which another transaction has changed.
    const command = yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`
          UPDATE webhook_secrets SET sealed = ${next} WHERE installation_id = 'a' AND retires_at = 'infinity'`
        const command = yield* Effect.forkDetach(reseal())
        yield* Effect.repeat(sql`SELECT FROM pg_locks WHERE NOT granted`, { until: (rows) => rows.length > 0 })
        return command
      })
    )
    assert.deepStrictEqual(yield* Fiber.join(command), { resealed: 1, failed: 0 })
    assert.deepStrictEqual(yield* openWebhooks("acme", key), ["whsec_rotated", "whsec_b"])
  })

  test("leaves the secrets of a project alone that another database serves, whose rows may still be copied there", function* () {
    const sql = yield* SqlClient.SqlClient
    yield* apply({ project, channels }, under(oldKey))
    yield* storeWebhooks("acme", ["a"], oldKey)
    for (const state of ["switching", "switched", "arriving"]) {
      yield* sql`UPDATE projects SET move_state = ${state}`
      assert.deepStrictEqual(yield* reseal(), { resealed: 0, failed: 0 }, state)
    }
    yield* sql`UPDATE projects SET move_state = 'copying'`
    assert.deepStrictEqual(yield* reseal(), { resealed: 3, failed: 0 })
  })
})

describe("doctor", () => {
  test("reports how many secrets need a previous key", function* () {
    yield* apply({ project, channels }, under(oldKey))
    yield* storeWebhooks("acme", ["a"], key)
    const before = yield* cli(["doctor"], both)
    assert.strictEqual(before.status, 0, before.stderr)
    assert.deepStrictEqual(keysFound(before), ["warning", "2 of 3 secrets are sealed by SECRET_KEY_PREVIOUS"])
    assert.include(before.stdout, "secrets reseal")
    yield* reseal()
    assert.deepStrictEqual(keysFound(yield* cli(["doctor"], under(key))), [
      "ok",
      "SECRET_KEY opens what is stored (3 secrets)"
    ])
  })
})
