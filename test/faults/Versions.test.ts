/**
 * The version before and this one run together on one database, under load and without an error; a migration that fails
 * half way leaves the version before serving, and is run again.
 */
import { assert } from "@effect/vitest"
import { Redacted, Schema } from "effect"
import { describe, it } from "vitest"
import { settings } from "../integrations/Deliveries.support.ts"
import { opened } from "../support/Finalizers.ts"
import { inGoodOrder, launchService, type Service, startService } from "../support/Process.ts"
import { requires } from "../support/Programs.ts"
import { makeDatabase } from "../support/TestDatabase.ts"
import { eventually } from "../support/Waiting.ts"
import { openProxy } from "../support/WireProxy.ts"
import { makeCalls } from "./Mix.calls.support.ts"
import { makeLedger, openCallers, runCallers, type Scene } from "./Mix.callers.support.ts"
import { balance, settled } from "./Mix.ledger.support.ts"
import { openProject } from "./Mix.project.support.ts"
import { serviceEnv } from "./Projects.support.ts"
import { type Answer, bearer, clients, createClient, listClients, send } from "./Requests.support.ts"
import { applyBy, findVersionBefore, sourceOf } from "./Versions.support.ts"

/** The statement that completes a migration. */
const completes = /INSERT INTO effect_sql_migrations/

const cursorOf = Schema.decodeUnknownSync(Schema.Struct({ nextCursor: Schema.String }))

/** Each replica answers with what another has done under a key, and goes on where the page of another ended. */
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
  const cursors = pages.map(({ body }) => cursorOf(body).nextCursor)
  for (const { url } of replicas) {
    for (const cursor of cursors) {
      const { status, text } = await send(`${url}${clients}?limit=1&cursor=${cursor}`, { headers: bearer(token) })
      assert.deepStrictEqual([status, text.includes('"one"')], [200, true])
    }
  }
}

/** The answer to a request that reaches a process just before the balancer has removed it. */
const isDrain = ({ headers, status, text }: Answer) =>
  status === 503 && headers["connection"] === "close" && text.includes("This process is shutting down")

const withoutHistory = "the version before is not in the history of this checkout: clone it whole, with git"

describe("the version before and this one", () => {
  requires("git")

  it("serve one database together under load, and migrations that fail half way are run again", async ({ skip }) => {
    const before = await findVersionBefore()
    if (before === undefined) return skip(withoutHistory)
    const source = await sourceOf(before.commit)
    const databaseUrl = Redacted.value(await opened(makeDatabase({ empty: true })))
    const env = { ...serviceEnv(databaseUrl), ...settings, DATABASE_MAX_CONNECTIONS: "12" }
    const startOld = () => startService({ env, source })
    const old = await startOld()

    // Callers of every mutation, on the replicas in turn. An operator has the commands of one version alone.
    let serving: ReadonlyArray<Service> = [old]
    let turn = 0
    const nextReplica = () => serving[turn++ % serving.length] ?? old
    const failed: Array<string> = []
    const apply = applyBy(source, env)
    const [project, other] = await Promise.all([
      openProject(databaseUrl, apply),
      apply(databaseUrl, { project: { id: "other", name: "other" } })
    ])
    const heard = (answer: Answer) => {
      if (answer.status >= 500 && !isDrain(answer)) failed.push(`${answer.status} ${answer.text}`)
    }
    const calls = makeCalls({ api: nextReplica }, project.token, heard)
    const scene: Scene = { env, project, calls, ledger: makeLedger() }
    const { others, retries } = await openCallers(scene)
    const callers = runCallers()
    const stopRetries = callers.run(retries, 200)
    const stops = others.map((caller) => callers.run(caller, 100))
    const migrations = async () =>
      Number((await project.query("SELECT count(*) FROM effect_sql_migrations"))[0]?.["count"])
    const goesOn = () => {
      const answered = calls.answered()
      return eventually(() => assert.isAbove(calls.answered(), answered + 30))
    }

    const roll = async () => {
      await goesOn()
      // Before it has recorded that a migration is complete, its connection breaks, then it is killed.
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
        await goesOn()
      }

      const first = await startService({ env })
      // A replica of the earlier version that restarts finds migrations that are unknown to it.
      const restarted = await startOld()
      serving = [old, first, restarted]
      await goesOn()
      await expectSame(other, [first, old, restarted])

      assert.deepStrictEqual([calls.counts.refused, calls.counts.cut], [0, 0])
      for (const replica of [old, restarted]) {
        serving = replica === old ? [first, restarted] : [first]
        assert.deepStrictEqual(await replica.stop(), inGoodOrder)
        await goesOn()
      }
      await Promise.all(stops.map((stop) => stop()))
      await settled(scene)
      await stopRetries()
    }
    await Promise.race([callers.failed, roll()])

    assert.deepStrictEqual(failed, [])
    const { deliveries, events } = await balance(scene)
    console.log(
      `This version and ${before.commit.slice(0, 8)}, which lacks ${before.newer} of its migrations: ` +
        `${calls.answered()} commands without an error, ${events} events, ${deliveries} deliveries`
    )
  }, 240_000)
})
