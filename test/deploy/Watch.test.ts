/** The alert rules and the dashboard, compared with the metrics of the service. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Duration, Effect, Redacted, Schedule, Schema } from "effect"
import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { open, receiver, status } from "../webhooks/delivery/Deliveries.support.ts"
import { freePort } from "../support/Process.ts"
import { pathOf, requires } from "../support/Programs.ts"
import { makeDatabase } from "../support/TestDatabase.ts"
import { startServer } from "../support/TestServer.ts"
import { startWireProxy } from "../support/WireProxy.ts"

const run = promisify(execFile)
const deploy = join(import.meta.dirname, "../../deploy")
const read = (file: string) => readFileSync(join(deploy, file), "utf8")

const Dashboard = Schema.fromJsonString(
  Schema.Struct({
    panels: Schema.Array(
      Schema.Struct({
        title: Schema.String,
        targets: Schema.optionalKey(Schema.Array(Schema.Struct({ expr: Schema.String })))
      })
    )
  })
)

const panels = Schema.decodeSync(Dashboard)(read("dashboard.json")).panels.flatMap(({ targets = [], title }) =>
  targets.map(({ expr }) => [title, expr] as const)
)

const conversation = "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8"

/** Starts a service, performs operations of each kind, and returns the service's metrics. */
const measured = Effect.gen(function* () {
  const port = yield* Effect.promise(freePort)
  const server = yield* startServer({ ADMIN_PORT: String(port), WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8" })
  const { token } = yield* server.seed({
    project: { rateLimits: { read: { limit: 1, windowSeconds: 600 } }, defaultPipelineId: "pipe" },
    pipelines: [{ id: "pipe", name: "Sales", stages: [{ id: "stage", name: "First" }] }],
    channels: [{ id: "chan", providerType: "sandbox", displayName: "Sandbox", config: {} }],
    conversations: [{ id: conversation, channelId: "chan", address: "somebody" }],
    installations: [{ id: "ins", name: "Shop" }]
  })
  const shop = yield* receiver()
  const path = "/api/v1/developer"
  const webhook = { endpointUrl: shop.url, eventTypes: ["crm.deal.created.v1"], expectedVersion: null }
  const hook = `${path}/integrations/ins/outbound-webhook`
  yield* server.send({ method: "PUT", path: hook, token, key: "hook-000001", json: webhook })
  const deal = { method: "POST", path: `${path}/crm/deals`, token, key: "deal-000001", json: { title: "Lamps" } }
  yield* Effect.replicateEffect(server.send(deal), 2, { discard: true })
  const messages = `${path}/messaging/conversations/${conversation}/messages`
  yield* server.send({ method: "POST", path: messages, token, key: "mail-000001", json: { text: "Ready." } })
  yield* Effect.replicateEffect(server.send({ path: `${path}/crm/clients`, token }), 2, { discard: true })
  const scrape = Effect.promise(() => fetch(`http://127.0.0.1:${port}/metrics`).then((answer) => answer.text()))
  return yield* scrape.pipe(
    Effect.repeat({
      schedule: Schedule.spaced(Duration.millis(100)),
      until: (text) => text.includes('webhook_deliveries_total{outcome="succeeded"}')
    })
  )
}).pipe(Effect.scoped)

/** Labels and series that Prometheus adds by itself. */
const isOwn = (name: string) => name === "up"
const ownLabels = new Set(["job", "instance", "cell", "le"])

/** Returns the series that an expression reads: the name of each, and its labels in matchers and `by`. */
const readBy = (expr: string) =>
  [...expr.matchAll(/\b([a-z_]+)\{([^}]*)\}/g)].map(([, name = "", matchers = ""]) => ({
    name,
    labels: [
      ...[...matchers.matchAll(/(\w+)\s*(?:=~|!=|=)/g)].map(([, label = ""]) => label),
      ...[...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = ""]) =>
        list.split(",").map((label) => label.trim())
      )
    ].filter((label) => !ownLabels.has(label))
  }))

describe("the alert rules", () => {
  requires("promtool")

  it("pass promtool and fire in its unit tests", async () => {
    await run(pathOf("promtool"), ["check", "rules", join(deploy, "alerts.yaml")])
    await run(pathOf("promtool"), ["test", "rules", join(import.meta.dirname, "alerts.test.yaml")])
    await run(pathOf("promtool"), ["check", "config", join(deploy, "prometheus.yaml")])
  })
})

interface Series {
  readonly name: string
  readonly value: string
}

/** Returns the series of a scrape. */
const seriesOf = (text: string): ReadonlyArray<Series> =>
  text.split("\n").flatMap((line) => {
    const [, name = "", value = ""] = /^([a-z_]+(?:\{.*\})?) (\S+)$/.exec(line) ?? []
    return name === "" ? [] : [{ name, value }]
  })

const alert = /alertname="(\w+)"/

/** Returns the alerts that fire after a service exposed `before` for 10 minutes, and then `after` for 10 minutes. */
const firing = Effect.fnUntraced(function* (before: string, after: string) {
  const later = new Map(seriesOf(after).map(({ name, value }) => [name, value]))
  const earlier = new Map(seriesOf(before).map(({ name, value }) => [name, value]))
  const input = [...new Set([...earlier.keys(), ...later.keys()])].map((name) => {
    const [, metric = "", labels = ""] = /^(\w+)(?:\{(.*)\})?$/.exec(name) ?? []
    const own = 'job="developer-api",instance="api:9464",cell="01"'
    const [first, last] = [earlier.get(name), later.get(name)]
    return {
      series: `${metric}{${[own, ...(labels === "" ? [] : [labels])].join(",")}}`,
      values: `${first === undefined ? "_x9" : `${first}x9`} ${last ?? "_"}x10`
    }
  })
  const expected = {
    expr: "count by (alertname, cell) (ALERTS{alertstate='firing'})",
    eval_time: "14m",
    exp_samples: []
  }
  const folder = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(join(tmpdir(), "alerts-"))),
    (path) => Effect.promise(() => rm(path, { recursive: true }))
  )
  const file = join(folder, "test.json")
  const test = { interval: "1m", input_series: input, promql_expr_test: [expected] }
  yield* Effect.promise(() =>
    writeFile(
      file,
      JSON.stringify({ rule_files: [join(deploy, "alerts.yaml")], evaluation_interval: "1m", tests: [test] })
    )
  )
  const printed = yield* Effect.promise(() =>
    run(pathOf("promtool"), ["test", "rules", file]).then(
      ({ stdout }) => stdout,
      ({ stderr, stdout }: { readonly stdout: string; readonly stderr: string }) => `${stdout}${stderr}`
    )
  )
  return [...printed.matchAll(/\{alertname=[^}]*\}/g)].map(([labels]) => {
    assert.include(labels, 'cell="01"')
    return alert.exec(labels)?.[1] ?? labels
  })
})

describe("the alerts on what a service exposes", () => {
  requires("promtool")

  it.live(
    "count the first event of a series, as every counter begins at 0, and tell that the database is away",
    function* () {
      const port = yield* Effect.promise(freePort)
      const database = yield* makeDatabase()
      const proxy = yield* startWireProxy(Redacted.value(database))
      const admin = { ADMIN_PORT: String(port), WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8" }
      const server = yield* startServer({ ...admin, DATABASE_URL: proxy.url })
      const scrape = Effect.promise(() => fetch(`http://127.0.0.1:${port}/metrics`).then((answer) => answer.text()))
      const until = (isShown: (text: string) => boolean) =>
        scrape.pipe(Effect.repeat({ schedule: Schedule.spaced(Duration.millis(100)), until: isShown }))
      const start = yield* until(
        (text) => text.includes("webhook_queue_depth ") && /^background_workers [1-9]/m.test(text)
      )
      assert.deepStrictEqual(yield* firing(start, start), [])

      const project = yield* open(server)
      yield* project.subscribe("shop", (yield* receiver(status(410))).url)
      yield* project.created()
      yield* Effect.orDie(server.sql`ALTER TABLE clients RENAME TO gone`)
      yield* server.send({ path: "/api/v1/developer/crm/clients", token: project.token })
      yield* Effect.orDie(server.sql`ALTER TABLE gone RENAME TO clients`)
      // Other files of the process may have counted before.
      const exhausted = (text: string) =>
        Number(/^webhook_deliveries_total\{outcome="exhausted"\} (\d+)$/m.exec(text)?.[1])
      const later = yield* until((text) => exhausted(text) > exhausted(start))
      const counters = [...later.matchAll(/^# TYPE (\w+) counter$/gm)].flatMap(([, name = ""]) => name)
      const counted = (text: string) =>
        seriesOf(text).filter(({ name }) => counters.some((counter) => name.split("{")[0] === counter))
      const begun = new Set(counted(start).map(({ name }) => name))
      assert.deepStrictEqual(
        counted(later).filter(({ name }) => !begun.has(name)),
        []
      )
      const fired = yield* firing(start, later)
      assert.includeMembers(fired, ["DeveloperApiBug", "DeveloperApiDeliveriesDead", "DeveloperApiWebhookDisabled"])
      assert.notInclude(fired, "DeveloperApiDatabaseAway")

      proxy.hang()
      const away = yield* until((text) => text.includes('service_ready{check="database"} 0'))
      assert.include(yield* firing(later, away), "DeveloperApiDatabaseAway")
      proxy.heal()
    }
  )
})

describe("the alerts and the dashboard", () => {
  it.live("read only metrics of the service", function* () {
    const text = yield* measured
    const rules = [...read("alerts.yaml").matchAll(/expr: (?:>-\n)?([\s\S]*?)\n {8}(?:for|labels):/g)]
    assert.strictEqual(rules.length, read("alerts.yaml").split("- alert:").length - 1)
    const expressions = [...rules.map(([, expr = ""]) => ["a rule", expr] as const), ...panels]
    for (const [of, expr] of expressions) {
      const series = readBy(expr)
      assert.isAbove(series.length, 0, expr)
      for (const { labels, name } of series.filter(({ name }) => !isOwn(name))) {
        const lines = text.split("\n").filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
        assert.isAbove(lines.length, 0, `${of} reads ${name}, which nothing measures`)
        for (const label of labels) {
          assert.isTrue(
            lines.some((line) => line.includes(`${label}="`)),
            `${of} reads ${name} by ${label}, which it has not`
          )
        }
      }
    }
  })

  it.live("read every metric of the service", function* () {
    const names = [...(yield* measured).matchAll(/^# TYPE (\S+)/gm)].map(([, name = ""]) => name)
    const watched = panels.map(([, expr]) => expr).join("\n")
    assert.includeMembers(names, ["idempotent_replays_total", "rate_limit_decisions_total"])
    // Effect's own metrics of fibers are left out.
    for (const name of names.filter((name) => !name.startsWith("child_fiber"))) assert.include(watched, name)
  })
})
