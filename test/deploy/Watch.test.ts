/** The alert rules and the dashboard, compared with the metrics of the service. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Duration, Effect, Schedule, Schema } from "effect"
import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { receiver } from "../integrations/deliveries/Deliveries.support.ts"
import { freePort } from "../support/Process.ts"
import { pathOf, requires } from "../support/Programs.ts"
import { startServer } from "../support/TestServer.ts"

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
const ownLabels = new Set(["job", "instance", "le"])

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
