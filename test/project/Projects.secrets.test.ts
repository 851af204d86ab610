/** Secrecy of the configs of channels in the database, and under another key. `faults/Secrets` tests what is printed. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { SecretBox } from "../../src/secrets/SecretBox.ts"
import {
  anHourLater,
  apply,
  configOf,
  faultsOf,
  rowsOf,
  services,
  textOf,
  underAnotherKey
} from "./Projects.support.ts"

const http = { url: "https://chat.example/send?key=hidden-in-the-url", signingSecret: "whsec_aGlkZGVuLXNpZ25pbmc" }
const telegram = { token: "4711:hidden-token", apiBaseUrl: "http://hidden-base:8081" }

const channel = (id: string, of: object) => ({ id, providerType: "http" as const, displayName: "C", ...of })
const all = {
  channels: [
    channel("h", { config: http }),
    channel("t", { providerType: "telegram", config: telegram }),
    channel("s", { providerType: "sandbox" })
  ]
}
const silent = {
  channels: [channel("h", {}), channel("t", { providerType: "telegram" }), channel("s", { providerType: "sandbox" })]
}

const unreadable =
  "is required, as this SECRET_KEY can't open the one that is stored: give it anew, or set the key that sealed it"

layer(services)("configs of channels", (it) => {
  it.effect("are required when another SECRET_KEY has sealed them", function* () {
    const id = "key"
    yield* apply(id, all)
    const before = yield* rowsOf("channels", id)
    const token = channel("t", { providerType: "telegram", config: { token: telegram.token } })
    yield* underAnotherKey(
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* faultsOf(textOf(id, silent)), [
          `channels/0/config: ${unreadable}`,
          `channels/1/config: ${unreadable}`
        ])
        // The rest of the config can't be read.
        assert.deepStrictEqual(yield* faultsOf(textOf(id, { channels: [token] })), [
          `channels/0/config/apiBaseUrl: ${unreadable}`
        ])
        // A file without these channels is not affected.
        yield* apply(id, { clients: [{ id: "c", displayName: "C", addresses: [{ channelId: "h", address: "1" }] }] })
      })
    )
    yield* apply(id, { clients: [{ id: "c", displayName: "C", addresses: [] }] })
    assert.deepStrictEqual(yield* rowsOf("channels", id), before)
  })

  it.effect("are replaced when given as a whole, whatever key sealed the old ones", function* () {
    const id = "replace"
    yield* apply(id, all)
    const [before] = yield* rowsOf("channels", id)
    yield* anHourLater
    yield* underAnotherKey(
      Effect.gen(function* () {
        assert.strictEqual((yield* apply(id, all)).updated["channels"], 3)
        assert.strictEqual((yield* apply(id, silent)).unchanged["channels"], 3)
        assert.deepStrictEqual(yield* configOf(id, "h"), http)
        assert.deepStrictEqual(yield* configOf(id, "t"), telegram)
        assert.deepStrictEqual(yield* configOf(id, "s"), {})
      })
    )
    assert.strictEqual((yield* faultsOf(textOf(id, silent))).length, 2)
    // The config of another provider is not used, readable or not.
    const changed = channel("h", { providerType: "telegram", config: { token: "1" } })
    yield* apply(id, { channels: [changed] })
    assert.deepStrictEqual(yield* configOf(id, "h"), { token: "1", apiBaseUrl: "https://api.telegram.org" })
    const [{ config: _, provider_type: __, provider_version: ___, ...after } = {}] = yield* rowsOf("channels", id)
    assert.deepInclude(before, after)
  })

  it.effect("do not open for another channel, project or provider", function* () {
    const sql = yield* SqlClient.SqlClient
    const box = yield* SecretBox
    const seal = (id: string, text: string) => box.seal(["channel", id, "t"], Redacted.make(text))
    for (const id of ["thief", "victim"]) yield* apply(id, all)
    const telegramOf = sql`SELECT config FROM channels WHERE project_id = 'thief' AND id = 't'`
    const forged: ReadonlyArray<readonly [of: string, config: unknown]> = [
      ["another project's", (yield* telegramOf)[0]?.["config"]],
      [
        "another channel's",
        (yield* sql`SELECT config FROM channels WHERE project_id = 'victim' AND id = 'h'`)[0]?.["config"]
      ],
      ["another provider's", yield* seal("victim", JSON.stringify(http))],
      ["no config", yield* seal("victim", "hidden")],
      ["nothing", new Uint8Array()]
    ]
    for (const [of, config] of forged) {
      yield* sql`UPDATE channels SET config = ${config} WHERE project_id = 'victim' AND id = 't'`
      const file = { channels: [channel("t", { providerType: "telegram" })] }
      assert.deepStrictEqual(yield* faultsOf(textOf("victim", file)), [`channels/0/config: ${unreadable}`], of)
    }
    yield* apply("victim", all)
    assert.deepStrictEqual(yield* configOf("victim", "t"), telegram)
  })
})
