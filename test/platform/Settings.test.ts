import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, Layer, Option, Redacted } from "effect"
import { Settings } from "../../src/platform/Settings.ts"

const read = (environment: Record<string, string>) =>
  Effect.provide(
    Effect.service(Settings),
    Settings.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: environment }))))
  )

describe("Settings", () => {
  it.effect("have the defaults of the README", () =>
    Effect.gen(function* () {
      const settings = yield* read({})
      assert.strictEqual(settings.host, "127.0.0.1")
      assert.strictEqual(settings.port, 3000)
      assert.strictEqual(settings.databaseMaxConnections, 20)
      assert.strictEqual(settings.dataDir, ".data")
      assert.strictEqual(Duration.toMillis(settings.shutdownGrace), 25_000)
      assert.strictEqual(Duration.toMillis(settings.idempotencyRetention), 7 * 86_400_000)
      assert.deepStrictEqual(settings.telemetry, Option.none())
    })
  )

  it.effect("take an empty variable as unset, as compose files write it", () =>
    Effect.gen(function* () {
      const settings = yield* read({ PORT: "", DATABASE_URL: "", REDIS_URL: "" })
      assert.strictEqual(settings.port, 3000)
      assert.deepStrictEqual(settings.databaseUrl, Option.none())
    })
  )

  it.effect("read durations, and keep what is secret out of sight", () =>
    Effect.gen(function* () {
      const secret = Buffer.alloc(32, 7).toString("base64")
      const settings = yield* read({
        SHUTDOWN_GRACE: "250ms",
        IDEMPOTENCY_RETENTION: "36h",
        DATABASE_URL: "postgres://user:password@db/app",
        SECRET_KEY: secret
      })
      assert.strictEqual(Duration.toMillis(settings.shutdownGrace), 250)
      assert.strictEqual(Duration.toMillis(settings.idempotencyRetention), 36 * 3_600_000)
      assert.deepStrictEqual(Option.map(settings.secretKey, Redacted.value), Option.some(secret))
      assert.notInclude(JSON.stringify(settings), "password")
      assert.notInclude(JSON.stringify(settings), secret)
    })
  )

  it.effect("tell every faulty variable at once, by name, and never its value", () =>
    Effect.gen(function* () {
      const { faults } = yield* Effect.flip(
        read({
          PORT: "65536",
          DATABASE_URL: "mysql://user:hunter2@db/app",
          REDIS_URL: "localhost",
          LOG_LEVEL: "loud",
          SHUTDOWN_GRACE: "25",
          DATABASE_MAX_CONNECTIONS: "0",
          OTEL_TRACES_SAMPLER: "sometimes",
          OTEL_TRACES_SAMPLER_ARG: "2",
          OTEL_RESOURCE_ATTRIBUTES: "novalue",
          MIGRATE_ON_START: "yes"
        })
      )
      const names = faults.map((fault) => fault.split(" ")[0]).sort()
      assert.deepStrictEqual(names, [
        "DATABASE_MAX_CONNECTIONS",
        "DATABASE_URL",
        "LOG_LEVEL",
        "MIGRATE_ON_START",
        "OTEL_RESOURCE_ATTRIBUTES",
        "OTEL_TRACES_SAMPLER",
        "OTEL_TRACES_SAMPLER_ARG",
        "PORT",
        "REDIS_URL",
        "SECRET_KEY",
        "SHUTDOWN_GRACE"
      ])
      assert.notInclude(faults.join(), "hunter2")
    })
  )

  it.effect("refuse a key that is not 32 bytes", () =>
    Effect.gen(function* () {
      const { faults } = yield* Effect.flip(read({ SECRET_KEY: Buffer.alloc(31).toString("base64") }))
      assert.match(faults.join(), /^SECRET_KEY must be 32 bytes in base64/)
    })
  )

  it.effect("read OpenTelemetry's variables", () =>
    Effect.gen(function* () {
      const { telemetry } = yield* read({
        OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318/",
        OTEL_RESOURCE_ATTRIBUTES: "deployment.environment=test,team=a%20b",
        OTEL_TRACES_SAMPLER: "traceidratio",
        OTEL_TRACES_SAMPLER_ARG: "0.25"
      })
      assert.deepStrictEqual(
        telemetry,
        Option.some({
          endpoint: "http://127.0.0.1:4318",
          serviceName: "developer-api",
          resourceAttributes: { "deployment.environment": "test", team: "a b" },
          sampler: "traceidratio" as const,
          samplerArgument: 0.25
        })
      )
    })
  )
})
