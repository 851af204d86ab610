/** Random project files in sequence, compared with a model: what an apply reports and stores, and what an export writes. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { canonicalJson } from "../../src/commands/Command.ts"
import { applyProject } from "../../src/project/Projects.ts"
import { file } from "./Files.support.ts"
import { applied, arrayOf, exportOf, keyOf, type Outcome, type State, type Value } from "./Projects.model.support.ts"
import { anHourLater, configOf, exported, type File, projectRow, services, stagedOf } from "./Projects.support.ts"

/** What the service sets in the row of a record, by part: the columns, from the row before and the time of the apply. */
type Derived = (row: Value, old: Value | undefined, now: Date) => Value
const versioned: Derived = (_, old) => ({ version: Number(old?.["version"] ?? 0) + 1 })
const created: Derived = (_, old, now) => ({ created_at: old?.["created_at"] ?? now })
const updated: Derived = (_, __, now) => ({ updated_at: now })
const since =
  (status: string, column: string): Derived =>
  (row, old, now) => ({ [column]: row["status"] === status ? (old?.[column] ?? now) : null })
const all =
  (...of: ReadonlyArray<Derived>): Derived =>
  (...args) =>
    Object.assign({}, ...of.map((derived) => derived(...args)))
const derived: Readonly<Record<string, Derived>> = {
  clients: all(versioned, updated, since("archived", "archived_at")),
  deals: all(versioned, updated),
  tickets: versioned,
  tasks: all(versioned, created),
  campaigns: all(versioned, created, updated),
  segments: all(created, updated),
  conversations: ({ channel_id }, old, now) => ({
    observed_at: old?.["channel_id"] === channel_id ? old?.["observed_at"] : now
  }),
  channels: all(since("revoked", "revoked_at"), ({ source_id }, old, now) => ({
    connected_at: old?.["connected_at"] ?? now,
    source_id: old?.["source_id"] ?? source_id
  }))
}

/** The parts whose rows are compared, which have the names of their tables. */
const tables = [...Object.keys(derived), "members", "organizations", "pipelines", "templates", "installations"]

/** Returns the rows of a project by part and key. `xmin` shows whether they are written again. */
const rows = Effect.fnUntraced(function* (projectId: string) {
  const sql = yield* SqlClient.SqlClient
  const found = new Map<string, ReadonlyMap<string, Value>>()
  for (const table of tables) {
    const list = yield* sql<Value>`SELECT xmin::text, * FROM ${sql(table)} WHERE project_id = ${projectId}`
    found.set(table, new Map(list.map((row) => [keyOf(table, row), row])))
  }
  return found
})

/** Compares values as JSON, whose order of members has no meaning, part by part. */
const assertSame = (actual: unknown, expected: Value, message: string) => {
  for (const [part, value] of Object.entries(expected)) {
    const found: unknown = Reflect.get(Object(actual), part)
    const sorted = (of: unknown) =>
      Array.isArray(of) ? of.map((item) => canonicalJson(item)).toSorted() : canonicalJson(of)
    assert.deepStrictEqual(sorted(found), sorted(value), `${part} ${message}`)
  }
}

const countsOf = (outcomes: ReadonlyMap<string, ReadonlyMap<string, Outcome>>, outcome: Outcome) =>
  Object.fromEntries(
    [...outcomes].map(([part, of]) => [part, [...of.values()].filter((one) => one === outcome).length])
  )

const seed = Number(process.env["SEED"] ?? Date.now() % 1_000_000)

layer(services)(`any project files in sequence (SEED=${seed})`, (it) => {
  it.effect("are applied, refused and exported as the model says", function* () {
    const states = new Map<string, State>()
    let refused = 0
    for (const [index, generated] of fc.sample(file, { seed, numRuns: 32 }).entries()) {
      const nth = `file ${index}`
      const json = JSON.stringify(generated)
      const given: File = JSON.parse(json)
      const { id } = given.project
      const now = yield* anHourLater
      const before = yield* rows(id)
      const expected = applied(states.get(id), given, now)
      const result = yield* Effect.result(applyProject(json))
      const after = yield* rows(id)
      if (!("state" in expected)) {
        refused++
        assert.isTrue(Result.isFailure(result), `refused: ${expected.join()} ${nth}`)
        if (Result.isFailure(result)) assert.deepStrictEqual(result.failure.faults, expected, nth)
        assert.deepStrictEqual(after, before, nth)
        continue
      }
      const { outcomes, state } = expected
      states.set(id, state)
      if (Result.isFailure(result)) return assert.fail(`${result.failure.message} ${nth}`)
      const report = result.success
      for (const outcome of ["created", "updated", "unchanged"] as const) {
        assert.deepStrictEqual(report[outcome], countsOf(outcomes, outcome), `${outcome} ${nth}`)
      }
      for (const [part, found] of after) {
        for (const [key, row] of found) {
          const old = before.get(part)?.get(key)
          const isWritten = (outcomes.get(part)?.get(key) ?? "unchanged") !== "unchanged"
          const next = isWritten ? { ...row, ...derived[part]?.(row, old, now) } : old
          assert.deepStrictEqual(row, next, `${part} ${key} ${nth}`)
        }
      }
      const active = [...(state.records.get("clients")?.values() ?? [])].filter(({ status }) => status === "active")
      const counted = state.project["contactCapacity"] === null ? 0 : active.length
      assert.strictEqual((yield* projectRow(id))?.["active_clients"], counted, nth)
      for (const [segment, { clientIds }] of state.records.get("segments") ?? []) {
        const counted = after.get("segments")?.get(segment)?.["contact_count"]
        assert.strictEqual(counted, arrayOf(clientIds).length, nth)
      }
      for (const [channel, config] of state.configs) {
        assert.deepStrictEqual(yield* configOf(id, channel), config, nth)
      }

      const { records, text } = yield* exported(ProjectId.make(id))
      const names = Object.keys(records).filter((name) => name !== "project")
      assertSame(JSON.parse(text), exportOf(state, names), nth)
      const staged = yield* stagedOf(id)
      const again = yield* applyProject(text)
      assert.deepStrictEqual(again.unchanged, records, nth)
      assert.deepStrictEqual(yield* stagedOf(id), staged, nth)
      assert.deepStrictEqual(yield* rows(id), after, nth)
    }
    assert.isAbove(refused, 0)
    assert.isBelow(refused, 26)
    for (const [id, state] of states) yield* copied(id, state)
  })
})

/** Applies the export of a project as another project: refused without its configs, otherwise exported as the same. */
const copied = Effect.fnUntraced(function* (id: string, { configs }: State) {
  const { text } = yield* exported(ProjectId.make(id))
  const file: File & { readonly channels: ReadonlyArray<Value & { readonly id: string }> } = JSON.parse(text)
  const copy = { ...file, project: { ...file.project, id: `copy-of-${id}` } }
  const faults = file.channels.flatMap(({ providerType }, index) =>
    providerType === "sandbox" ? [] : [`channels/${index}/config: is required for a new channel`]
  )
  if (faults.length > 0) {
    assert.deepStrictEqual((yield* Effect.flip(applyProject(JSON.stringify(copy)))).faults, faults)
  }
  const channels = file.channels.map((channel) => ({ ...channel, config: configs.get(channel.id) }))
  const { created } = yield* applyProject(JSON.stringify({ ...copy, channels }))
  const again = yield* exported(ProjectId.make(copy.project.id))
  assert.deepStrictEqual(created, again.records)
  assert.strictEqual(
    again.text.replace(`copy-of-${id}`, () => id),
    text
  )
  assert.isNotEmpty(arrayOf(file.clients))
})
