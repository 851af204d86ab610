/** Large files: a constant number of statements for each part, none whose cost is quadratic, and parts of any size. */
import { Effect } from "effect"
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { failure, run } from "../cli/Cli.support.ts"
import { assert, layer } from "../support/Vitest.ts"
import { apply, manyClients, services } from "./Projects.support.ts"

const many = <T>(record: (index: number) => T) => Array.from({ length: 20_000 }, (_, index) => record(index))
const rounds = [
  ["created", "one"],
  ["unchanged", "one"],
  ["updated", "two"]
] as const
const channels = [{ id: "k", providerType: "sandbox" as const, displayName: "K" }]
const client = (index: number) => `cli_${String(index).padStart(6, "0")}`
const big: ReadonlyArray<readonly [part: string, records: (name: string) => ReadonlyArray<object>]> = [
  [
    "clients",
    (displayName) =>
      manyClients(20_000, {
        displayName,
        tags: ["a", "b"],
        loyalty: { balance: 5 },
        addresses: [{ channelId: "k", address: displayName }]
      })
  ]
]
layer(services, { excludeTestServices: true })("apply", (it) => {
  for (const [part, records] of big) {
    it.effect(`of 20,000 ${part} succeeds`, function* () {
      for (const [outcome, name] of rounds) {
        const report = yield* apply("big", { channels, [part]: records(name) })
        assert.strictEqual(report[outcome][part], 20_000)
      }
    })
  }

  it.effect("of templates with more than 256 MiB, which no JSON array in PostgreSQL can have, succeeds", function* () {
    const body = "😀".repeat(4_096)
    const templates = Array.from({ length: 17_000 }, (_, index) => ({ id: `${index}`, version: 1, name: "Long", body }))
    assert.strictEqual((yield* apply("long", { templates })).created["templates"], 17_000)
  })

  it.effect("of a file that no text can hold fails with one line", function* () {
    const directory = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "long-"))),
      (path) => Effect.sync(() => rmSync(path, { recursive: true }))
    )
    const file = join(directory, "long.json")
    writeFileSync(file, "")
    truncateSync(file, 2 ** 29)
    const ended = yield* run(["project", "apply", file])
    assert.deepStrictEqual(ended, failure(1, `Cannot read ${file} (it is longer than 512 MiB)`))
  })

  it.effect("of lists with 20,000 items succeeds", function* () {
    for (const [outcome, name] of rounds) {
      const stages = many((index) => ({ id: `of-one-${index}`, name }))
      const addresses = many((index) => ({ channelId: "k", address: `${name} ${index}` }))
      const report = yield* apply("big", {
        channels,
        pipelines: [{ id: "one", name: "One", stages }],
        clients: [{ id: "one", displayName: "One", addresses }],
        segments: [{ id: "one", name, clientIds: many(client) }]
      })
      assert.deepInclude(report[outcome], { pipelines: 1, clients: 1, segments: 1 })
    }
  })
})
