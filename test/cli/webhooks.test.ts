/** The commands `webhooks`, `deliveries` and `audit`: compared with what is stored, and their audit entries (contract §13). */
import { assert } from "../support/Vitest.ts"
import { Effect, Redacted, Schema } from "effect"
import {
  hang,
  inTurn,
  ok,
  open,
  receiver,
  type Receiver,
  layerOf,
  status
} from "../webhooks/delivery/Deliveries.support.ts"
import { assertMatches } from "../support/Matches.ts"
import { secretKey, TestServer } from "../support/TestServer.ts"
import { until, untilRows } from "../support/Waiting.ts"
import { at, documentOf, failure, run } from "./Cli.support.ts"
import { userInfo } from "node:os"

/** Runs the command on the server's database, while the server runs. */
const deliveries = (name: string, projectId: string, ...flags: ReadonlyArray<string>) =>
  Effect.flatMap(TestServer, ({ databaseUrl }) =>
    run(["deliveries", name, "--project", projectId, ...flags], { env: at(Redacted.make(databaseUrl)) })
  )

layerOf({ WEBHOOK_RETRY_SCHEDULE: "50ms,1h", WEBHOOK_TIMEOUT: "60s" })("the command `deliveries`", (it) => {
  it.effect("fails with one line for an unknown delivery or installation", function* () {
    const { seed } = yield* TestServer
    const { projectId } = yield* seed()
    const other = yield* open(yield* TestServer)
    const to = yield* receiver()
    yield* other.subscribe("shop", to.url)
    yield* other.created()
    yield* until(() => to.hits.length === 1)
    const [{ id: foreign } = assert.fail("no delivery")] = yield* other.deliveries()
    const list = (...flags: ReadonlyArray<string>) => deliveries("list", projectId, ...flags)
    const show = (id: string, ...flags: ReadonlyArray<string>) =>
      deliveries("show", projectId, "--delivery", id, ...flags)
    assert.deepStrictEqual(documentOf(yield* list("--json")), { items: [], next: null })
    const long = "x".repeat(200)
    const none = (id: string) => `Project "${projectId}" has no delivery "${id}"`
    for (const [command, line] of [
      [list("--json", "--installation", "shop"), `Project "${projectId}" has no installation "shop"`],
      [show(foreign), none(foreign)],
      [show(foreign, "--json"), none(foreign)],
      [show(""), none("")],
      [show(long), none(long)],
      [show("a\u001b[31m\nb"), none("a [31m b")]
    ] as const) {
      assert.deepStrictEqual(yield* command, failure(1, line))
    }
  })
})

const Webhook = Schema.Struct({
  installationId: Schema.String,
  endpointUrl: Schema.String,
  eventTypes: Schema.Array(Schema.String),
  headerNames: Schema.Array(Schema.String),
  enabled: Schema.Boolean,
  disabledReason: Schema.NullOr(Schema.String),
  state: Schema.String,
  consecutiveFailures: Schema.Int,
  lastSuccessAt: Schema.NullOr(Schema.String),
  version: Schema.Int,
  deadLettered: Schema.optionalKey(Schema.Int)
})
const Entry = Schema.Struct({
  at: Schema.String,
  actor: Schema.String,
  action: Schema.String,
  target: Schema.String,
  detail: Schema.Record(Schema.String, Schema.Unknown)
})
const strictly = { onExcessProperty: "error", errors: "all" } as const
const decodeWebhook = Schema.decodeUnknownSync(Webhook, strictly)
const decodeWebhooks = Schema.decodeUnknownSync(
  Schema.Struct({ items: Schema.Array(Webhook), next: Schema.Null }),
  strictly
)
const decodeEntries = Schema.decodeUnknownSync(
  Schema.Struct({ items: Schema.Array(Entry), next: Schema.Null }),
  strictly
)

/** Creates a project with a webhook; returns the commands on it. */
const start = Effect.fnUntraced(function* (to: Receiver) {
  const server = yield* TestServer
  const project = yield* open(server, ["shop", "bare"])
  const secret = yield* project.subscribe("shop", to.url)
  const env = {
    DATABASE_URL: server.databaseUrl,
    SECRET_KEY: secretKey,
    WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8",
    WEBHOOK_TIMEOUT: "1s"
  }
  const command = (...args: ReadonlyArray<string>) => run([...args, "--project", project.projectId, "--json"], { env })
  const webhooks = (name: string, installation = "shop") => command("webhooks", name, "--installation", installation)
  return {
    ...project,
    env,
    secret,
    command,
    webhooks,
    switched: (name: "enable" | "disable") => Effect.map(webhooks(name), (ended) => decodeWebhook(documentOf(ended))),
    audit: Effect.map(command("audit", "list"), (ended) => decodeEntries(documentOf(ended)).items),
    events: server.sql`SELECT FROM events WHERE project_id = ${project.projectId}`.pipe(Effect.orDie)
  }
})

layerOf({ WEBHOOK_RETRY_SCHEDULE: "50ms" })("webhooks", (it) => {
  it.effect("are listed with their health, by installation", function* () {
    const to = yield* receiver(status(500))
    const { command, created, finished, projectId, sql } = yield* start(to)
    yield* created()
    yield* finished
    yield* Effect.orDie(sql`UPDATE webhooks SET header_names = '{x-tenant}' WHERE project_id = ${projectId}`)
    const { items } = decodeWebhooks(documentOf(yield* command("webhooks", "list")))
    assert.lengthOf(items, 1)
    assert.deepInclude(items[0], {
      installationId: "shop",
      endpointUrl: to.url,
      headerNames: ["x-tenant"],
      enabled: true,
      disabledReason: null,
      state: "failing",
      consecutiveFailures: 2,
      lastSuccessAt: null,
      version: 1
    })
  })

  it.effect(
    "are disabled and enabled: the version grows, pending deliveries become dead, and each change is recorded once",
    function* () {
      const to = yield* receiver(hang)
      const { audit, created, deliveries, env, sql, projectId, switched } = yield* start(to)
      yield* sql`
    UPDATE endpoint_health SET parked_until = now() + interval '1 day', failures = 12
    WHERE project_id = ${projectId}`.pipe(Effect.orDie)
      yield* created()
      const asked = (stdin: string) =>
        run(["webhooks", "disable", "--project", projectId, "--installation", "shop"], { env, stdin, terminal: true })
      const question = `Disable the webhook of shop? Nothing more is sent to ${to.url}, 1 pending delivery will be dead-lettered, and events that occur while it is disabled are sent only by a replay of that time. [y/N]`
      assert.deepStrictEqual(yield* asked("n\n"), failure(1, question, "Nothing was changed"))
      assert.deepStrictEqual(yield* asked(""), failure(1, question, "Nothing was changed"))
      assert.deepInclude(yield* switched("disable"), {
        enabled: false,
        disabledReason: "operator",
        version: 2,
        deadLettered: 1
      })
      const again = yield* asked("y\n")
      assert.strictEqual(again.status, 0)
      assert.include(again.stdout, " dead-lettered in the background: what is left when it is enabled is sent. ")
      assert.deepInclude(yield* switched("disable"), { enabled: false, version: 2, deadLettered: 0 })
      const [delivery] = yield* untilRows(deliveries(), ([row]) => row?.status === "dead").pipe(
        Effect.andThen(deliveries())
      )
      assert.deepInclude(delivery, { status: "dead", attempts: 0 })
      assert.deepInclude(yield* switched("enable"), {
        enabled: true,
        disabledReason: null,
        consecutiveFailures: 0,
        version: 3
      })
      assert.deepInclude(yield* switched("enable"), { version: 3 })
      assert.deepStrictEqual(
        (yield* audit).map(({ action, actor, target }) => [action, actor, target]),
        [
          ["webhook.enable", userInfo().username, "shop"],
          ["webhook.disable", userInfo().username, "shop"]
        ]
      )
    }
  )

  it.effect("have a dead delivery retried, and no other", function* () {
    const to = yield* receiver(inTurn(status(500), status(500), ok))
    const { audit, command, created, deliveries, finished, switched } = yield* start(to)
    yield* created()
    yield* finished
    const [dead = assert.fail("no delivery")] = yield* deliveries()
    const retry = (id = dead.id) => command("deliveries", "retry", "--delivery", id)
    yield* switched("disable")
    assert.include((yield* retry()).stderr, "The webhook is disabled")
    yield* switched("enable")
    assert.deepStrictEqual(documentOf(yield* retry()), { deliveryId: dead.id, status: "pending" })
    yield* finished
    assert.deepInclude((yield* deliveries())[0], { status: "delivered", attempts: 3 })
    const shown = documentOf(yield* command("deliveries", "show", "--delivery", dead.id))
    assertMatches(shown, {
      deliveryId: dead.id,
      installationId: "shop",
      status: "delivered",
      lastStatusCode: 200,
      attemptLog: [
        { number: 1, statusCode: 500 },
        { number: 2, statusCode: 500 },
        { number: 3, statusCode: 200 }
      ]
    })
    assert.include((yield* retry()).stderr, "Only a dead delivery can be retried")
    assert.include((yield* retry("dlv_none")).stderr, 'no delivery "dlv_none"')
    assert.deepInclude((yield* audit)[0], { action: "delivery.retry", target: dead.id, detail: {} })
  })
})
