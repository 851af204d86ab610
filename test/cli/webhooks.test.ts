/** `webhooks`, `deliveries retry` and `audit`: the commands on webhooks, and their audit entries (contract §13). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Schema } from "effect"
import { userInfo } from "node:os"
import {
  bodyOf,
  hang,
  inTurn,
  ok,
  open,
  type Receiver,
  receiver,
  settings,
  status,
  verifies
} from "../integrations/deliveries/Deliveries.support.ts"
import { secretKey, TestServer } from "../support/TestServer.ts"
import { untilRows } from "../support/Waiting.ts"
import { documentOf, failure, run } from "./Cli.support.ts"

const Webhook = Schema.Struct({
  installationId: Schema.String,
  endpointUrl: Schema.String,
  eventTypes: Schema.Array(Schema.String),
  enabled: Schema.Boolean,
  disabledReason: Schema.NullOr(Schema.String),
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

const server = TestServer.layer({ ...settings, WEBHOOK_RETRY_SCHEDULE: "50ms" })

layer(server, { excludeTestServices: true })("webhooks", (it) => {
  it.effect("are listed with their health, by installation", function* () {
    const to = yield* receiver(status(500))
    const { command, created, finished } = yield* start(to)
    yield* created()
    yield* finished
    const { items } = decodeWebhooks(documentOf(yield* command("webhooks", "list")))
    assert.lengthOf(items, 1)
    assert.deepInclude(items[0], {
      installationId: "shop",
      endpointUrl: to.url,
      enabled: true,
      disabledReason: null,
      consecutiveFailures: 2,
      lastSuccessAt: null,
      version: 1
    })
  })

  it.effect("get a signed test event at once, of which nothing is stored", function* () {
    const to = yield* receiver(inTurn(ok, status(503), hang))
    const { deliveries, events, health, secret, switched, webhooks } = yield* start(to)
    const before = yield* health()
    const first = documentOf(yield* webhooks("test"))
    // Any other answer is printed, too, and the command fails.
    const refused = Effect.map(webhooks("test"), ({ status, stderr, stdout }) => {
      assert.deepStrictEqual([status, stderr.split("\n").length], [1, 2])
      const answer: unknown = JSON.parse(stdout)
      return answer
    })
    assert.deepInclude(first, { status: 200, errorCode: null })
    const [hit = assert.fail("nothing came")] = to.hits
    assert.isTrue(verifies(secret, hit))
    assert.match(String(hit.headers["webhook-id"]), /^tst_[0-9a-f]{32}$/)
    assert.deepInclude(bodyOf(hit), { type: "webhook.test.v1", installationId: "shop", data: {} })

    yield* switched("disable")
    assert.deepInclude(yield* refused, { status: 503, errorCode: null })
    assert.deepInclude(yield* refused, { status: null, errorCode: "timeout" })
    assert.deepStrictEqual([yield* events, yield* deliveries()], [[], []])
    assert.deepStrictEqual(yield* health(), before)
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
      const question = "Disable the webhook of shop, and end its 1 pending deliveries? [y/N]"
      assert.deepStrictEqual(yield* asked("n\n"), failure(1, question, "Nothing was changed"))
      assert.deepStrictEqual(yield* asked(""), failure(1, question, "Nothing was changed"))
      assert.deepInclude(yield* switched("disable"), {
        enabled: false,
        disabledReason: "operator",
        version: 2,
        deadLettered: 1
      })
      assert.deepInclude(yield* asked("y\n"), { status: 0 })
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
    assert.include((yield* retry()).stderr, "Only a dead delivery can be retried")
    assert.include((yield* retry("dlv_none")).stderr, 'no delivery "dlv_none"')
    assert.deepInclude((yield* audit)[0], { action: "delivery.retry", target: dead.id, detail: {} })
  })

  it.effect("of an installation without one, or of a missing project, are refused with one line", function* () {
    const { projectId, webhooks } = yield* start(yield* receiver(ok))
    const missing = `Project "${projectId}" has no webhook for installation "bare"`
    for (const name of ["test", "enable", "disable"]) {
      assert.deepStrictEqual(yield* webhooks(name, "bare"), failure(1, missing))
    }
    const { databaseUrl } = yield* TestServer
    const env = { DATABASE_URL: databaseUrl, SECRET_KEY: secretKey }
    for (const args of [
      ["webhooks", "list"],
      ["audit", "list"],
      ["deliveries", "replays"]
    ]) {
      const ended = yield* run([...args, "--project", "nobody", "--json"], { env })
      assert.deepStrictEqual(ended, failure(1, 'There is no project "nobody"'))
    }
  })
})
