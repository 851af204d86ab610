/**
 * The previous version and this one run together on one database, under load and without an error. A migration that fails
 * halfway leaves the previous version serving, and is run again.
 */
import { assert } from "@effect/vitest"
import { Redacted, Schema } from "effect"
import { describe, it } from "vitest"
import { readdir, symlink, writeFile } from "node:fs/promises"
import * as Path from "node:path"
import { settings } from "../webhooks/delivery/Deliveries.support.ts"
import { opened } from "../support/Finalizers.ts"
import {
  checkout,
  inGoodOrder,
  launchService,
  runToEnd,
  type Service,
  startService,
  temporaryDirectory
} from "../support/Process.ts"
import { requires } from "../support/Programs.ts"
import { makeDatabase } from "../support/TestDatabase.ts"
import { openProxy } from "../support/WireProxy.ts"
import { makeLedger, openCallers, runCallers, type Scene } from "./Mix.callers.support.ts"
import { makeCalls, mutations } from "./Mix.calls.support.ts"
import { balance, everyCommand, settled } from "./Mix.ledger.support.ts"
import { openProject } from "./Mix.project.support.ts"
import { database, type project, serviceEnv } from "./Projects.support.ts"
import { type Answer, bearer, clients, createClient, listClients, send } from "./Requests.support.ts"
import { lastingSession } from "./Shop.support.ts"

const git = async (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) => {
  const { code, stderr, stdout } = await runToEnd("git", args, env)
  if (code !== 0) throw new Error(`git ${args.join(" ")}: ${stderr}`)
  return stdout
}

const linesOf = (text: string) => text.split("\n").filter((line) => line !== "")

/** The version before the first release: the last commit whose migrations are not the baseline. */
const beforeBaseline = "5fba9982d22e31e1077729c15a51dcc8dc74c3bb"

interface VersionBefore {
  readonly commit: string
  /** Number of this version's migrations that it lacks. */
  readonly newer: number
}

/** Finds the last release or, before the first, the last commit before the baseline. Returns undefined without a history. */
const findVersionBefore = async (): Promise<VersionBefore | undefined> => {
  const tag = await runToEnd("git", ["describe", "--tags", "--abbrev=0"])
  try {
    const commit = (await git(["rev-parse", tag.code === 0 ? tag.stdout.trim() : beforeBaseline])).trim()
    const before = new Set(linesOf(await git(["ls-tree", "--name-only", `${commit}:migrations`])))
    const now = await readdir(Path.join(checkout, "migrations"))
    return { commit, newer: now.filter((name) => !before.has(name)).length }
  } catch {
    // No repository, or one without its history.
    return undefined
  }
}

/** Writes the source of a commit into a temporary directory, which uses the packages of this checkout. */
const sourceOf = async (commit: string): Promise<string> => {
  const directory = await temporaryDirectory()
  const source = Path.join(directory, "source")
  // A separate index, so that the checkout's index is unchanged.
  const env = { GIT_INDEX_FILE: Path.join(directory, "index") }
  await git(["read-tree", commit], env)
  await git(["checkout-index", "--all", `--prefix=${source}/`], env)
  await symlink(Path.join(checkout, "node_modules"), Path.join(source, "node_modules"))
  return source
}

const decodeToken = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ token: Schema.String })))

/** Applies a project file and issues a token with the commands of a source. */
const applyBy =
  (source: string, env: Readonly<Record<string, string>>): typeof project =>
  async (_, file = {}) => {
    const id = file.project?.id ?? assert.fail("The project has no id")
    const command = async (...args: ReadonlyArray<string>) => {
      const { code, stderr, stdout } = await runToEnd(process.execPath, [Path.join(source, "src/cli.ts"), ...args], env)
      assert.strictEqual(code, 0, stderr)
      return stdout
    }
    const path = Path.join(await temporaryDirectory(), "project.json")
    await writeFile(path, JSON.stringify(file))
    await command("project", "apply", path)
    return decodeToken(await command("token", "issue", "--project", id, "--name", "test", "--scope", "all", "--json"))
      .token
  }

const decodeDocument = Schema.decodeUnknownSync(
  Schema.Struct({
    paths: Schema.Record(Schema.String, Schema.Record(Schema.String, Schema.Struct({ operationId: Schema.String })))
  })
)

/** Returns the operations of an OpenAPI document. */
const operationsOf = (document: unknown) =>
  new Set(
    Object.values(decodeDocument(document).paths).flatMap((path) =>
      Object.values(path).map(({ operationId }) => operationId)
    )
  )

/** The statement that completes a migration. */
const completes = /INSERT INTO applied_migrations/

const cursorOf = Schema.decodeUnknownSync(Schema.Struct({ nextCursor: Schema.String }))

/** Asserts that each replica replays the answers of the others, and continues their pages. */
const expectSame = async (token: string, replicas: ReadonlyArray<Service>) => {
  for (const name of ["one", "two"]) {
    const answers = await Promise.all(replicas.map(({ url }) => createClient(url, token, `the-same-key-${name}`, name)))
    assert.deepStrictEqual(
      answers.map(({ status, text }) => [status, text]),
      answers.map(() => [201, answers[0]?.text])
    )
    const replayed = answers.filter(({ headers }) => headers["idempotent-replayed"] === "true")
    assert.lengthOf(replayed, replicas.length - 1)
  }
  const pages = await Promise.all(replicas.map(({ url }) => listClients(url, token)))
  const cursors = pages.map(({ json }) => cursorOf(json).nextCursor)
  for (const { url } of replicas) {
    for (const cursor of cursors) {
      const { status, text } = await send(`${url}${clients}?limit=1&cursor=${cursor}`, { headers: bearer(token) })
      assert.deepStrictEqual([status, text.includes('"one"')], [200, true])
    }
  }
}

/** Whether the answer is that of a process that drains, which it sends just before the balancer removes it. */
const isDrain = ({ headers, status, text }: Answer) =>
  status === 503 && headers["connection"] === "close" && text.includes("This process is shutting down")

/** Lists the columns of a database, with their types and defaults, and its indexes. The former ledger is left out. */
const catalogOf = async (databaseUrl: string) =>
  (await lastingSession(databaseUrl))(`
    SELECT table_name || '.' || column_name AS name, concat_ws(' ', data_type, collation_name, is_nullable, column_default) AS form
    FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'effect_sql_migrations'
    UNION ALL SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'effect_sql_migrations'
    ORDER BY 1`)

const withoutHistory = "the version before is not in the history of this checkout: clone it whole, with git"

describe("the version before and this one", () => {
  requires("git")

  it("serve one database together under load, and migrations that fail halfway are run again", async ({ skip }) => {
    const before = await findVersionBefore()
    if (before === undefined) return skip(withoutHistory)
    const source = await sourceOf(before.commit)
    const databaseUrl = Redacted.value(await opened(makeDatabase({ empty: true })))
    const env = { ...serviceEnv(databaseUrl), ...settings, DATABASE_MAX_CONNECTIONS: "12" }
    const startOld = () => startService({ env, source })
    const old = await startOld()

    // Callers of every mutation that both versions have, on the replicas in turn. The operator's commands are not called: they
    // belong to one version.
    let serving: ReadonlyArray<Service> = [old]
    let turn = 0
    const nextReplica = () => serving[turn++ % serving.length] ?? old
    const failed: Array<string> = []
    const apply = applyBy(source, env)
    const [project, other] = await Promise.all([
      openProject(databaseUrl, apply),
      apply(databaseUrl, { project: { id: "other", name: "other" } })
    ])
    const onAnswer = (answer: Answer) => {
      if (answer.status >= 500 && !isDrain(answer)) failed.push(`${answer.status} ${answer.text}`)
    }
    const calls = makeCalls({ api: nextReplica }, project.token, onAnswer)
    const known = operationsOf((await send(`${old.url}/openapi.json`)).json)
    const both = mutations.filter((name) => known.has(name))
    const scene: Scene = { env, project, calls, ledger: makeLedger(), mutations: both }
    const { others, retries } = await openCallers(scene)
    const callers = runCallers()
    const stopRetries = callers.run(retries, 200)
    const stops = others.map((caller) => callers.run(caller, 100))
    // Before the first start of this version, there may be no ledger.
    const migrations = async () => {
      const [table] = await project.query("SELECT to_regclass('applied_migrations') IS NOT NULL AS exists")
      if (table?.["exists"] !== true) return 0
      return Number((await project.query("SELECT count(*) FROM applied_migrations"))[0]?.["count"])
    }

    const roll = async () => {
      await calls.goOn()
      // In two starts, the connection breaks, or the process is killed, before a migration is recorded as complete.
      for (const fault of before.newer > 0 ? (["tear", "kill"] as const) : []) {
        const applied = await migrations()
        const wire = await openProxy(databaseUrl)
        const gate = wire.gate(completes)
        const failing = launchService({ env: { ...env, DATABASE_URL: wire.url } })
        const held = await gate.next()
        if (fault === "tear") await held.tear()
        else failing.kill("SIGKILL")
        gate.open()
        const { code } = await failing.exited
        assert.deepStrictEqual([code, await migrations()], [fault === "tear" ? 1 : null, applied])
        await calls.goOn()
      }

      const first = await startService({ env })
      // A restarted replica of the previous version finds migrations that it does not have.
      const restarted = await startOld()
      serving = [old, first, restarted]
      await calls.goOn()
      await expectSame(other, [first, old, restarted])

      assert.deepStrictEqual([calls.counts.refused, calls.counts.cut], [0, 0])
      for (const replica of [old, restarted]) {
        serving = replica === old ? [first, restarted] : [first]
        assert.deepStrictEqual(await replica.stop(), inGoodOrder)
        await calls.goOn()
      }
      await everyCommand(scene)
      await Promise.all(stops.map((stop) => stop()))
      await settled(scene)
      await stopRetries()
    }
    await Promise.race([callers.failed, roll()])

    assert.deepStrictEqual(failed, [])
    assert.deepStrictEqual(await catalogOf(databaseUrl), await catalogOf(await database()))
    const { deliveries, events } = await balance(scene)
    console.log(
      `This version and ${before.commit.slice(0, 8)}, which lacks ${before.newer} of its migrations: ` +
        `${calls.answered()} commands without an error, ${events} events, ${deliveries} deliveries`
    )
  }, 240_000)
})
