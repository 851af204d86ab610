/** The command `deliveries`: its output compared with the deliveries that are stored (contract §13). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Redacted } from "effect"
import {
  type Answering,
  hang,
  inTurn,
  ok,
  open,
  receiver,
  reset,
  settings,
  status
} from "../integrations/deliveries/Deliveries.support.ts"
import { subscribe } from "../support/Events.ts"
import { TestServer } from "../support/TestServer.ts"
import { until, untilRows } from "../support/Waiting.ts"
import { at, documentOf, type Ended, failure, run } from "./Cli.support.ts"

const title = "Not for the eyes of operators"

/** The answers to the attempts for each installation, and the state in which they leave a delivery. */
const ways: Readonly<Record<string, readonly [answers: Answering, status: string]>> = {
  again: [inTurn(status(500, { connection: "close" }), ok), "delivered"],
  waiting: [inTurn(status(500, { connection: "close" }), reset), "pending"],
  underway: [hang, "delivering"],
  gone: [status(410), "dead"]
}

/** Creates a project with a delivery for each of `ways` and one that is not sent. The server's second delay is an hour. */
const openAll = Effect.fnUntraced(function* () {
  const project = yield* open(yield* TestServer, Object.keys(ways))
  yield* subscribe(project.sql, project.projectId, "a\u001b[31m\nb\u009b")
  const secrets: Array<string> = []
  for (const [name, [answers]] of Object.entries(ways)) {
    secrets.push(yield* project.subscribe(name, (yield* receiver(answers)).url, ["crm.deal.created.v1"]))
  }
  yield* project.created({ title })
  const isOver = ({ attempts, installation, status }: { attempts: number; installation: string; status: string }) =>
    !(installation in ways) ||
    (status === ways[installation]?.[1] && attempts === (["again", "waiting"].includes(installation) ? 2 : 1))
  yield* untilRows(project.deliveries(), (rows) => rows.every(isOver))
  return { ...project, secrets }
})

/** Runs the command on the server's database, while the server runs. */
const deliveries = (name: string, projectId: string, ...flags: ReadonlyArray<string>) =>
  Effect.flatMap(TestServer, ({ databaseUrl }) =>
    run(["deliveries", name, "--project", projectId, ...flags], { env: at(Redacted.make(databaseUrl)) })
  )

/** Returns the cells of each line of text output. */
const cellsOf = ({ status, stderr, stdout }: Ended) => {
  assert.deepStrictEqual([status, stderr], [0, ""])
  return stdout
    .trimEnd()
    .split("\n")
    .map((line) => line.split(/ {2,}/))
}

const server = TestServer.layer({ ...settings, WEBHOOK_RETRY_SCHEDULE: "50ms,1h", WEBHOOK_TIMEOUT: "60s" })

layer(server, { excludeTestServices: true })("the command `deliveries`", (it) => {
  it.effect(
    "lists and shows deliveries with the log of their attempts, and prints tables without secrets",
    function* () {
      const { deliveries: stored, projectId, secrets, sql } = yield* openAll()
      const times = yield* sql<{ readonly id: string; readonly at: Date }>`
      SELECT id, created_at AS at FROM deliveries WHERE project_id = ${projectId}`
      const expected = (yield* stored()).map(({ attempts, availableAt, id, installation, log, status, type }) => ({
        item: {
          deliveryId: id,
          installationId: installation,
          eventType: type,
          status,
          attempts,
          // A webhook without an endpoint sends nothing.
          nextAttemptAt: installation in ways && status === "pending" ? (availableAt?.toISOString() ?? "") : null,
          lastStatusCode: log.at(-1)?.statusCode ?? null,
          lastErrorCode: log.at(-1)?.errorCode ?? null,
          createdAt: times.find((time) => time.id === id)?.at.toISOString()
        },
        attemptLog: log.map(({ durationMs, errorCode, finishedAt, number, startedAt, statusCode }) => {
          return { number, startedAt, finishedAt, statusCode, errorCode, durationMs }
        })
      }))
      const items = expected.map(({ item }) => item).toReversed()
      assert.deepStrictEqual(documentOf(yield* deliveries("list", projectId, "--json")), { items, next: null })
      const list = yield* deliveries("list", projectId)
      const [, ...lines] = cellsOf(list)
      const texts = [list.stdout]
      for (const { attemptLog, item } of expected) {
        const one = ["--delivery", item.deliveryId]
        const shown = documentOf(yield* deliveries("show", projectId, ...one, "--json"))
        assert.deepStrictEqual(shown, { ...item, replayOf: null, attemptLog })
        const text = yield* deliveries("show", projectId, ...one)
        texts.push(text.stdout)
        const [, line = [], , , ...attempts] = cellsOf(text)
        const last = item.lastStatusCode ?? item.lastErrorCode ?? "-"
        const { attempts: count, createdAt, eventType, nextAttemptAt, status } = item
        assert.deepStrictEqual(
          [line[0], ...line.slice(2)],
          [item.deliveryId, eventType, status, String(count), nextAttemptAt ?? "-", String(last), createdAt]
        )
        assert.deepInclude(lines, line)
        assert.deepStrictEqual(
          attempts,
          attemptLog.map(({ durationMs, errorCode, number, startedAt, statusCode }) =>
            [number, startedAt, statusCode ?? "-", errorCode ?? "-", `${durationMs} ms`].map(String)
          )
        )
      }
      for (const text of texts) {
        // oxlint-disable-next-line no-control-regex
        assert.notMatch(text, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]|\nb/)
        for (const secret of ["whsec_", "v1,", title, ...secrets.map((secret) => secret.slice(10))]) {
          assert.notInclude(text, secret)
        }
      }
    }
  )

  it.effect("fails with one line for an unknown delivery, installation or project", function* () {
    const { seed } = yield* TestServer
    const { projectId } = yield* seed()
    const other = yield* open(yield* TestServer)
    const to = yield* receiver()
    yield* other.subscribe("shop", to.url)
    yield* other.created()
    yield* until(() => to.hits.length === 1)
    const [{ id: foreign } = assert.fail("no delivery")] = yield* other.deliveries()
    const list = (project: string, ...flags: ReadonlyArray<string>) => deliveries("list", project, ...flags)
    const show = (project: string, id: string, ...flags: ReadonlyArray<string>) =>
      deliveries("show", project, "--delivery", id, ...flags)
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
