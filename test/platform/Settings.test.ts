import fc from "fast-check"
import { assert, describe, it } from "../support/Vitest.ts"
import { ConfigProvider, Duration, Effect, Layer, Option, Redacted } from "effect"
import { defaultConnections, leastConnections, pools, sizesOf } from "../../src/platform/Pools.ts"
import { Settings } from "../../src/platform/Settings.ts"

const read = (environment: Record<string, string>) =>
  Effect.provide(
    Effect.service(Settings),
    Settings.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: environment }))))
  )

describe("the settings", () => {
  it.effect("have the defaults of the README", function* () {
    const settings = yield* read({})
    assert.strictEqual(settings.host, "127.0.0.1")
    assert.strictEqual(settings.port, 3000)
    assert.strictEqual(settings.databaseMaxConnections, 20)
    assert.strictEqual(settings.dataDir, ".data")
    assert.strictEqual(Duration.toMillis(settings.shutdownGrace), 25_000)
    assert.strictEqual(Duration.toMillis(settings.idempotencyRetention), 7 * 86_400_000)
    assert.strictEqual(Duration.toMillis(settings.providerTimeout), 10_000)
    assert.deepStrictEqual(settings.telemetry, Option.none())
    assert.deepStrictEqual([settings.adminHost, settings.adminPort], ["127.0.0.1", Option.none()])
    const { webhooks } = settings
    assert.strictEqual(Duration.toMillis(webhooks.timeout), 15_000)
    assert.strictEqual(Duration.toMillis(webhooks.secretOverlap), 24 * 3_600_000)
    assert.deepStrictEqual(
      webhooks.retrySchedule.map(Duration.toSeconds),
      [5, 30, 120, 600, 1_800, 7_200, 21_600, 43_200, 86_400, 108_000]
    )
    assert.strictEqual(webhooks.endpointConcurrency, 4)
  })

  it.effect("allow webhooks to this machine by default only without DATABASE_URL", function* () {
    const networksOf = (environment: Record<string, string>) =>
      Effect.map(read(environment), ({ webhooks }) => webhooks.allowedNetworks)
    const external = { DATABASE_URL: "postgres://db/app", SECRET_KEY: Buffer.alloc(32, 7).toString("base64") }
    assert.deepStrictEqual(yield* networksOf({}), ["127.0.0.0/8", "::1/128"])
    assert.deepStrictEqual(yield* networksOf({ DATABASE_URL: "" }), ["127.0.0.0/8", "::1/128"])
    assert.deepStrictEqual(yield* networksOf(external), [])
    const networks = { WEBHOOK_ALLOWED_NETWORKS: "10.0.0.0/8, fd00::/8,192.0.2.1 ,0.0.0.0/0,::/0,::1" }
    for (const environment of [networks, { ...external, ...networks }]) {
      assert.deepStrictEqual(yield* networksOf(environment), [
        "10.0.0.0/8",
        "fd00::/8",
        "192.0.2.1",
        "0.0.0.0/0",
        "::/0",
        "::1"
      ])
    }
  })

  for (const [name, values] of [
    ["PROVIDER_TIMEOUT", ["10", "0s", "-1s", "1.5s", "s", "5 s", "1w"]],
    ["WEBHOOK_TIMEOUT", ["15", "0ms", "-1s", "1.5s", "s", "5 s", "1w"]],
    ["SHUTDOWN_GRACE", ["25", "0s", "000m"]],
    ["IDEMPOTENCY_RETENTION", ["7", "0d", "365001d", "99999999d"]],
    ["MESSAGE_RETENTION", ["90", "0d", "365001d", "99999999d"]],
    ["WEBHOOK_SECRET_OVERLAP", ["24", "0h", "-1h", "h", "1y"]],
    ["WEBHOOK_DISABLE_AFTER", ["5", "0d", "-1d", "d", "1y"]],
    ["WEBHOOK_RETRY_SCHEDULE", [",", "0s", "5s,0s", "5s,", ",5s", "5s,,30s", "5s;30s", "5s 30s", "5,30", "5s,never"]],
    ["DATABASE_MAX_CONNECTIONS", [String(leastConnections - 1), "1001", "many"]],
    ["SECRET_KEY", [Buffer.alloc(31).toString("base64"), Buffer.alloc(33).toString("base64")]],
    ["TRACE_URL_TEMPLATE", ["traces", "https://traces.example.com/", "javascript:{traceId}", "https://{traceId}:x/"]],
    ["WEBHOOK_ENDPOINT_CONCURRENCY", ["0", "-1", "1.5", "four", "1e1", "9999999999"]],
    [
      "WEBHOOK_ALLOWED_NETWORKS",
      [
        "10.0.0.0/33 ::/129 10.0.0.0/-1 10.0.0.0/ 10.0.0.0/8/8 10.0.0/8 10.0.0.256 010.0.0.0/8 localhost",
        "example.com/8 [::1]/128 fe80::1%eth0 fe80::1%eth0/64 10.0.0.0/8, , 10.0.0.0/8;10.1.0.0/16 *"
      ].flatMap((faulty) => faulty.split(" "))
    ]
  ] as const) {
    it.effect(`name a faulty ${name}`, function* () {
      for (const value of values) {
        const faults = yield* Effect.match(read({ [name]: value }), {
          onFailure: ({ faults }) => faults,
          onSuccess: () => []
        })
        assert.strictEqual(faults.length, 1, value)
        assert.match(faults.join(), new RegExp(`^${name} must be `), value)
      }
    })
  }

  it.effect("parse durations and redact secrets", function* () {
    const secret = Buffer.alloc(32, 7).toString("base64")
    const settings = yield* read({
      SHUTDOWN_GRACE: "250ms",
      IDEMPOTENCY_RETENTION: "36h",
      PROVIDER_TIMEOUT: "2m",
      DATABASE_URL: "postgres://user:password@db/app",
      SECRET_KEY: secret
    })
    assert.strictEqual(Duration.toMillis(settings.shutdownGrace), 250)
    assert.strictEqual(Duration.toMillis(settings.idempotencyRetention), 36 * 3_600_000)
    assert.strictEqual(Duration.toMillis(settings.providerTimeout), 120_000)
    assert.deepStrictEqual(Option.map(settings.secretKey, Redacted.value), Option.some(secret))
    assert.notInclude(JSON.stringify(settings), "password")
    assert.notInclude(JSON.stringify(settings), secret)
  })

  it.effect("name all faulty variables at once without their values", function* () {
    const faulty = {
      PORT: "65536",
      PUBLIC_URL: "example.com",
      ADMIN_PORT: "9e3",
      LOG_FORMAT: "xml",
      IDEMPOTENCY_RETENTION: "7 days",
      SECRET_KEY: "c2hvcnQ=",
      SECRET_KEY_PREVIOUS: `${Buffer.alloc(32).toString("base64")},c2hvcnQ=`,
      OTEL_EXPORTER_OTLP_ENDPOINT: "localhost:4318",
      DATABASE_URL: "mysql://user:hunter2@db/app",
      REDIS_URL: "localhost",
      LOG_LEVEL: "loud",
      SHUTDOWN_GRACE: "25",
      DATABASE_MAX_CONNECTIONS: "0",
      OTEL_TRACES_SAMPLER: "sometimes",
      OTEL_TRACES_SAMPLER_ARG: "2",
      OTEL_RESOURCE_ATTRIBUTES: "novalue",
      TRACE_SQL_TEXT: "all",
      MIGRATE_ON_START: "yes",
      PROVIDER_TIMEOUT: "soon",
      WEBHOOK_TIMEOUT: "soon",
      WEBHOOK_SECRET_OVERLAP: "a day",
      WEBHOOK_RETRY_SCHEDULE: "5s,hunter2",
      WEBHOOK_ENDPOINT_CONCURRENCY: "many",
      WEBHOOK_ALLOWED_NETWORKS: "hunter2"
    }
    const { faults } = yield* Effect.flip(read(faulty))
    assert.sameMembers(
      faults.map((fault) => fault.split(" ")[0]),
      Object.keys(faulty)
    )
    for (const fault of faults) assert.match(fault, /^\S+ (must|is) .+/)
    for (const secret of ["hunter2", "c2hvcnQ="]) assert.notInclude(faults.join(), secret)
  })

  it.effect("refuse DATABASE_DIRECT_URL where DATABASE_URL leads to no pooler", function* () {
    const { faults } = yield* Effect.flip(read({ DATABASE_DIRECT_URL: "postgres://user:hunter2@db/app" }))
    assert.match(faults.join(), /^DATABASE_DIRECT_URL is only for use beside DATABASE_URL/)
    assert.notInclude(faults.join(), "hunter2")
  })
})

/** Runs a check for any permitted number of connections. */
const forAny = (check: (max: number) => void) =>
  fc.assert(fc.property(fc.integer({ min: leastConnections, max: 1_000 }), check))

const sumOf = (max: number) => Object.values(sizesOf(max)).reduce((sum, size) => sum + size, 0)

describe("the pools of a process", () => {
  it("have DATABASE_MAX_CONNECTIONS connections in total, 20 by default", () => {
    assert.strictEqual(defaultConnections, 20)
    forAny((max) => assert.strictEqual(sumOf(max), max))
  })

  it("have at least one connection each, whatever the maximum", () => {
    forAny((max) => assert.isTrue(Object.values(sizesOf(max)).every((size) => size >= 1)))
  })

  it("grow with DATABASE_MAX_CONNECTIONS, none at the cost of another", () => {
    forAny((max) => {
      const [fewer, more] = [sizesOf(max), sizesOf(max + 1)]
      for (const [id, size] of Object.entries(fewer))
        assert.isAtLeast(Object.entries(more).find(([of]) => of === id)?.[1] ?? 0, size)
    })
  })

  it("have distinct application names", () => {
    const names = Object.values(pools).map(({ name }) => name)
    assert.strictEqual(new Set(names).size, names.length)
  })
})
