/** The command `deliveries`: its output compared with the deliveries that were made (contract §13). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { type Hit, open, settings } from "../integrations/deliveries/Deliveries.support.ts"
import { subscribe } from "../support/Events.ts"
import { TestServer } from "../support/TestServer.ts"
import { documentOf, failure } from "./Cli.support.ts"
import {
  type All,
  cellsOf,
  created,
  linesOf,
  list,
  listed,
  names,
  openAll,
  show,
  shown,
  type Shown,
  title,
  type Way,
  ways
} from "./Deliveries.support.ts"

const minute = 60_000

/** Asserts that the attempts of a delivery are those that its receiver got. */
const assertLog = (name: Way, { attemptLog }: Shown, hits: ReadonlyArray<Hit>) => {
  assert.deepStrictEqual(
    attemptLog.map(({ number, statusCode }) => [number, statusCode]),
    ways[name].codes.map((code, index) => [index + 1, code])
  )
  for (const [n, { durationMs, errorCode, finishedAt, startedAt, statusCode }] of attemptLog.entries()) {
    assert.strictEqual(errorCode === null, statusCode !== null, `${name}: ${errorCode}`)
    assert.strictEqual(durationMs, Date.parse(finishedAt) - Date.parse(startedAt))
    const receivedAt = hits[n]?.at ?? 0
    assert.isTrue(Date.parse(startedAt) <= receivedAt && receivedAt <= Date.parse(finishedAt), `${name} ${n}`)
  }
}

/** Asserts that the output about a delivery is correct. */
const assertShown = (name: Way, delivery: Shown, all: All) => {
  const [hit] = all.hits(name)
  if (hit !== undefined) assert.strictEqual(delivery.deliveryId, hit.headers["webhook-id"])
  const last = delivery.attemptLog.at(-1)
  assert.deepInclude(delivery, {
    installationId: name,
    eventType: created,
    status: ways[name].status,
    attempts: ways[name].attempts,
    lastStatusCode: last?.statusCode ?? null,
    lastErrorCode: last?.errorCode ?? null
  })
  assert.isTrue(
    Date.parse(delivery.createdAt) >= all.before && Date.parse(delivery.createdAt) <= Date.now(),
    delivery.createdAt
  )
  assert.strictEqual(delivery.nextAttemptAt !== null, ways[name].status === "pending", name)
  if (name === "waiting") {
    const pause = Date.parse(delivery.nextAttemptAt ?? "") - Date.parse(last?.finishedAt ?? "")
    assert.isTrue(pause >= 48 * minute && pause <= 72 * minute, String(pause))
  }
  assertLog(name, delivery, all.hits(name))
}

/** Returns whether the columns of a table are aligned. */
const isAligned = ([head = "", ...rows]: ReadonlyArray<string>) =>
  [...head.matchAll(/ {2}(?=\S)/g)].every(({ index }) => rows.every((row) => row.slice(index, index + 2) === "  "))

type Items = Effect.Success<ReturnType<typeof listed>>

const byInstallation = (items: Items) => items.map(({ installationId }) => installationId).sort()

/** Returns the delivery to an installation. */
const named = (items: Items, name: Way) =>
  items.find(({ installationId }) => installationId === name) ?? assert.fail(name)

const server = TestServer.layer({ ...settings, WEBHOOK_RETRY_SCHEDULE: "50ms,1h", WEBHOOK_TIMEOUT: "60s" })

layer(server, { excludeTestServices: true })("the command `deliveries`", (it) => {
  it.effect(
    "lists and shows deliveries with the log of their attempts, and prints tables without secrets",
    function* () {
      const all = yield* openAll()
      const items = yield* listed(all.projectId)
      assert.deepStrictEqual(byInstallation(items), names.toSorted())
      for (const name of names) {
        const item = named(items, name)
        const delivery = yield* shown(all.projectId, item.deliveryId)
        assertShown(name, delivery, all)
        const { attemptLog: _, replayOf, ...rest } = delivery
        assert.isNull(replayOf)
        assert.deepStrictEqual(item, rest, name)
      }

      const table = yield* list(all.projectId)
      const lines = linesOf(table)
      assert.strictEqual(lines.length, items.length + 1)
      assert.isTrue(isAligned(lines), table.stdout)
      for (const item of items) {
        const cells = cellsOf(lines, item.deliveryId)
        assert.strictEqual(cells.length, lines[0]?.split(/ {2,}/).length)
        const { createdAt, eventType, installationId, lastErrorCode, lastStatusCode, nextAttemptAt, status } = item
        const values = [installationId, eventType, status, item.attempts, createdAt]
        const some = [nextAttemptAt, lastStatusCode ?? lastErrorCode].filter((value) => value !== null)
        assert.includeMembers([...cells], [...values, ...some].map(String))
      }

      const [waiting, underway] = [named(items, "waiting"), named(items, "underway")]
      const page = yield* show(all.projectId, waiting.deliveryId)
      cellsOf(linesOf(page), waiting.deliveryId)
      for (const attempt of (yield* shown(all.projectId, waiting.deliveryId)).attemptLog) {
        const { durationMs, errorCode, number, startedAt, statusCode } = attempt
        const cells = cellsOf(linesOf(page), startedAt)
        assert.includeMembers([...cells], [number, statusCode ?? errorCode].map(String))
        assert.isTrue(
          cells.some((cell) => Number.parseInt(cell, 10) === durationMs),
          cells.join()
        )
      }

      const texts = [table, page, yield* show(all.projectId, underway.deliveryId)].map(({ stdout }) => stdout)
      for (const secret of ["whsec_", "v1,", title, ...all.secrets.map((secret) => secret.slice(10))]) {
        for (const text of texts) assert.notInclude(text, secret)
      }
    }
  )

  it.effect("escapes control characters in the names of installations", function* () {
    const name = "a\u001b[31m\nb\u009b"
    const project = yield* open(yield* TestServer, [])
    yield* subscribe(project.sql, project.projectId, name)
    yield* project.created()
    const [item = assert.fail()] = yield* listed(project.projectId)
    assert.strictEqual(item.installationId, name)
    const texts = [yield* list(project.projectId), yield* show(project.projectId, item.deliveryId)]
    // oxlint-disable-next-line no-control-regex
    for (const { stdout } of texts) assert.notMatch(stdout, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]|\nb/)
  })

  it.effect("fails with one line for an unknown delivery, installation or project", function* () {
    const { seed } = yield* TestServer
    const [{ projectId }, other] = [yield* seed(), yield* openAll()]
    const [{ deliveryId: foreign } = assert.fail()] = yield* listed(other.projectId)
    assert.deepStrictEqual(documentOf(yield* list(projectId, "--json")), { items: [], next: null })
    const long = "x".repeat(200)
    const none = (id: string) => `Project "${projectId}" has no delivery "${id}"`
    for (const [command, line] of [
      [list("nowhere"), 'There is no project "nowhere"'],
      [list("no\nwhere", "--json", "--status", "dead"), 'There is no project "no where"'],
      [list(projectId, "--json", "--installation", "shop"), `Project "${projectId}" has no installation "shop"`],
      [show("nowhere", foreign, "--json"), 'There is no project "nowhere"'],
      [show(projectId, foreign), none(foreign)],
      [show(projectId, foreign, "--json"), none(foreign)],
      [show(projectId, ""), none("")],
      [show(projectId, long), none(long)],
      [show(projectId, "a\u001b[31m\nb"), none("a [31m b")]
    ] as const) {
      assert.deepStrictEqual(yield* command, failure(1, line))
    }
  })
})
