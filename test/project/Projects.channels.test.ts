/** The channels that an applied file creates or changes, and its faults. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import {
  anHourLater,
  apply,
  configOf,
  faultsOf,
  type File,
  rowsOf,
  services,
  stateOf,
  textOf
} from "./Projects.support.ts"

type Channel = NonNullable<File["channels"]>[number]

const http = { url: "https://chat.example/send", signingSecret: "whsec_c2VjcmV0" }
const telegram = { token: "123:abc" }
const telegramApi = "https://api.telegram.org"

/** Returns a file with channels `c0`, `c1`, …; omitted members have defaults. */
const fileOf = (...channels: ReadonlyArray<object>): { readonly channels: ReadonlyArray<Channel> } => ({
  channels: channels.map((channel, index) => ({ id: `c${index}`, providerType: "http", displayName: "C", ...channel }))
})

const refused = (id: string, ...channels: ReadonlyArray<object>) => faultsOf(textOf(id, fileOf(...channels)))

/** Applies a file with one channel; returns the channel's row. */
const after = Effect.fnUntraced(function* (id: string, channel: object) {
  yield* apply(id, fileOf(channel))
  const [row = assert.fail()] = yield* rowsOf("channels", id)
  return row
})

const isNew = "is required for a new channel"
const isOther = "is required when the providerType changes"

layer(services)("channels of a project file", (it) => {
  it.effect("get defaults when they are new", () =>
    Effect.gen(function* () {
      const start = yield* anHourLater
      const { created } = yield* apply(
        "new",
        fileOf(
          { providerType: "sandbox" },
          { config: http, status: "revoked" },
          { providerType: "telegram", config: telegram }
        )
      )
      assert.deepStrictEqual(created, { project: 1, channels: 3 })
      const rows = yield* rowsOf("channels", "new")
      const common = { project_id: "new", display_name: "C", connected_at: start }
      assert.deepStrictEqual(
        rows.map((row) => {
          const { config: _, source_id: __, ...rest } = row
          return rest
        }),
        [
          { ...common, id: "c0", provider_type: "sandbox", status: "active", revoked_at: null },
          { ...common, id: "c1", provider_type: "http", status: "revoked", revoked_at: start },
          { ...common, id: "c2", provider_type: "telegram", status: "active", revoked_at: null }
        ]
      )
      assert.deepStrictEqual(yield* configOf("new", "c0"), {})
      assert.deepStrictEqual(yield* configOf("new", "c1"), http)
      assert.deepStrictEqual(yield* configOf("new", "c2"), { apiBaseUrl: telegramApi, ...telegram })
      const sources = rows.map((row) => String(row["source_id"]))
      for (const source of sources) assert.match(source, /^src_[0-9a-f]{32}$/)
      assert.strictEqual(new Set(sources).size, 3)
    })
  )

  it.effect("are unchanged by the same values in any order and by omitted members", () =>
    Effect.gen(function* () {
      const id = "same"
      const { signingSecret, url } = http
      const kinds = [{ config: http }, { providerType: "telegram", config: telegram }, { providerType: "sandbox" }]
      yield* apply(id, fileOf(...kinds))
      const sql = yield* SqlClient.SqlClient
      // A row that is written gets a new xmin.
      const rows = sql`SELECT *, xmin::text FROM channels WHERE project_id = ${id} ORDER BY id`
      const before = yield* rows
      const implicit = [{}, { providerType: "telegram" }, { providerType: "sandbox" }]
      const explicit = [
        { config: { signingSecret, url }, status: "active" },
        { providerType: "telegram", config: { token: telegram.token, apiBaseUrl: telegramApi } },
        { providerType: "sandbox", config: {} }
      ]
      for (const channels of [kinds, implicit, explicit]) {
        yield* anHourLater
        const { unchanged } = yield* apply(id, fileOf(...channels))
        assert.deepStrictEqual(unchanged, { project: 1, channels: 3 })
        assert.deepStrictEqual(yield* rows, before)
      }
    })
  )

  it.effect("keep members that a file omits", () =>
    Effect.gen(function* () {
      const id = "keep"
      const created = yield* after(id, { config: http, status: "revoked" })
      yield* anHourLater
      assert.deepStrictEqual(yield* after(id, { displayName: "D" }), { ...created, display_name: "D" })
      const { config, ...changed } = yield* after(id, { config: { ...http, url: "http://10.0.0.1/" } })
      assert.deepStrictEqual({ ...changed, config: created["config"] }, created)
      assert.notDeepEqual(config, created["config"])
      assert.deepStrictEqual(yield* configOf(id, "c0"), { ...http, url: "http://10.0.0.1/" })
      // Sealed values are always different, so the config has to be opened to compare it.
      const secret = { url: "http://10.0.0.1/", signingSecret: "whsec_bmV4dA" }
      assert.strictEqual((yield* apply(id, fileOf({ config: secret }))).updated["channels"], 1)
      assert.deepStrictEqual(yield* configOf(id, "c0"), secret)
      // A config is one value: required members are never kept from the old one.
      assert.deepStrictEqual(yield* refused(id, { config: { url: http.url } }), [
        "channels/0/config/signingSecret: is required"
      ])
    })
  )

  it.effect("keep the times of their connection and of their last revocation", () =>
    Effect.gen(function* () {
      const id = "status"
      const times = (status?: string, displayName = "C") =>
        Effect.map(after(id, { config: http, displayName, ...(status && { status }) }), (row) => [
          row["status"],
          row["connected_at"],
          row["revoked_at"]
        ])
      const start = yield* anHourLater
      assert.deepStrictEqual(yield* times(), ["active", start, null])
      const first = yield* anHourLater
      assert.deepStrictEqual(yield* times("revoked"), ["revoked", start, first])
      yield* anHourLater
      assert.deepStrictEqual(yield* times("revoked"), ["revoked", start, first])
      assert.deepStrictEqual(yield* times(undefined, "D"), ["revoked", start, first])
      assert.deepStrictEqual(yield* times("active"), ["active", start, null])
      assert.deepStrictEqual(yield* times(undefined, "E"), ["active", start, null])
      const second = yield* anHourLater
      assert.deepStrictEqual(yield* times("revoked"), ["revoked", start, second])
    })
  )

  it.effect("require a config when they are new or change their provider, except for the sandbox", () =>
    Effect.gen(function* () {
      const id = "needed"
      assert.deepStrictEqual(
        yield* refused(id, {}, { providerType: "telegram", status: "revoked" }, { providerType: "sandbox" }),
        [`channels/0/config: ${isNew}`, `channels/1/config: ${isNew}`]
      )
      yield* apply(
        id,
        fileOf({ config: http }, { providerType: "telegram", config: telegram }, { providerType: "sandbox" })
      )
      const before = yield* stateOf(id)
      assert.deepStrictEqual(
        yield* refused(id, { providerType: "telegram" }, { providerType: "sandbox" }, {}, { providerType: "telegram" }),
        [`channels/0/config: ${isOther}`, `channels/2/config: ${isOther}`, `channels/3/config: ${isNew}`]
      )
      assert.deepStrictEqual(yield* stateOf(id), before)
    })
  )

  it.effect("remain the same source after a change of provider, without the old config", () =>
    Effect.gen(function* () {
      const id = "provider"
      const base = { apiBaseUrl: "http://127.0.0.1:8081" }
      const { config: _, ...created } = yield* after(id, { providerType: "telegram", config: { ...telegram, ...base } })
      const next: ReadonlyArray<readonly [channel: object, type: string, config: object]> = [
        [{ config: http }, "http", http],
        [{ providerType: "telegram", config: telegram }, "telegram", { ...telegram, apiBaseUrl: telegramApi }],
        [{ providerType: "sandbox" }, "sandbox", {}],
        [{ config: http }, "http", http]
      ]
      for (const [channel, provider_type, config] of next) {
        yield* anHourLater
        const { config: _, ...row } = yield* after(id, channel)
        assert.deepStrictEqual(row, { ...created, provider_type })
        assert.deepStrictEqual(yield* configOf(id, "c0"), config)
      }
    })
  )

  it.effect("of Telegram keep the base URL of its API until a file gives another", () =>
    Effect.gen(function* () {
      const id = "telegram"
      const own = "http://127.0.0.1:8081"
      const next: ReadonlyArray<readonly [given: object, token: string, apiBaseUrl: string]> = [
        [{ token: "1" }, "1", telegramApi],
        [{ token: "2", apiBaseUrl: own }, "2", own],
        [{ token: "3" }, "3", own],
        [{ token: "3", apiBaseUrl: telegramApi }, "3", telegramApi],
        [{ token: "4" }, "4", telegramApi]
      ]
      for (const [config, token, apiBaseUrl] of next) {
        yield* apply(id, fileOf({ providerType: "telegram", config }))
        assert.deepStrictEqual(yield* configOf(id, "c0"), { apiBaseUrl, token })
        const again = yield* apply(id, fileOf({ providerType: "telegram", config }))
        assert.strictEqual(again.unchanged["channels"], 1)
      }
    })
  )

  it.effect("of two projects are independent, whatever their ids", () =>
    Effect.gen(function* () {
      yield* apply("mine", fileOf({ config: http }))
      const mine = yield* rowsOf("channels", "mine")
      // If both projects shared the channel, these files would keep its config or change its provider.
      assert.deepStrictEqual(yield* refused("theirs", {}), [`channels/0/config: ${isNew}`])
      assert.deepStrictEqual(yield* refused("theirs", { providerType: "telegram" }), [`channels/0/config: ${isNew}`])
      assert.strictEqual((yield* apply("theirs", fileOf({ config: http }))).created["channels"], 1)
      const [theirs] = yield* rowsOf("channels", "theirs")
      assert.notStrictEqual(theirs?.["source_id"], mine[0]?.["source_id"])
      yield* apply("theirs", fileOf({ providerType: "telegram", config: telegram, status: "revoked" }))
      assert.deepStrictEqual(yield* rowsOf("channels", "mine"), mine)
      assert.deepStrictEqual(yield* configOf("mine", "c0"), http)
    })
  )
})
