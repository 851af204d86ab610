/** Results that can't be recorded because of a defect, such as a statement that the database always refuses. */
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Context, Effect, Layer, Option, Redacted, References } from "effect"
import { DeliveryLoop } from "../../../src/integrations/deliveries/DeliveryLoop.ts"
import { Sender } from "../../../src/integrations/deliveries/Sender.ts"
import { Supervisor } from "../../../src/platform/background/Supervisor.ts"
import { Worker } from "../../../src/platform/background/Worker.ts"
import { clients, DatabaseUrl } from "../../../src/platform/database/Database.ts"
import { Notifier } from "../../../src/platform/outbox/Notifier.ts"
import { SecretBox } from "../../../src/platform/secrets/SecretBox.ts"
import { SecretKey } from "../../../src/platform/secrets/SecretKey.ts"
import { Settings } from "../../../src/platform/Settings.ts"
import { secretKey } from "../../support/TestServer.ts"
import { until } from "../../support/Waiting.ts"
import { open, serve } from "./Deliveries.support.ts"

describe("a defect in recording results", () => {
  it.live("leaves their leases to the database, so that the loop still drains", () =>
    Effect.gen(function* () {
      const server = yield* serve({}, "api")
      const project = yield* open(server)
      yield* project.subscribe("shop", "http://127.0.0.1:1/hook")
      let sent = 0
      const send = () =>
        Effect.sync(() => {
          sent++
          return { _tag: "answered", status: 200, retryAfter: Option.none(), body: null } as const
        })
      const loop = yield* DeliveryLoop.layer.pipe(
        Layer.provide(Layer.succeed(Sender, { send })),
        Layer.provide(SecretBox.layer),
        Layer.provide(Layer.succeed(Worker, { id: 1n, leaseId: () => 1n, isDead: (sql) => sql`false` })),
        Layer.provide(Notifier.layerInline),
        Layer.provide(Supervisor.layer),
        Layer.provide(Layer.succeed(SecretKey, SecretKey.make(Redacted.make(secretKey)))),
        Layer.provide(clients.deliveries),
        Layer.provide(Layer.succeed(DatabaseUrl, Redacted.make(server.databaseUrl))),
        Layer.provide(Settings.layer),
        Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ SECRET_KEY: secretKey, LOG_LEVEL: "none" }))),
        Layer.build
      )
      yield* Effect.orDie(project.sql`
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$`)
      yield* Effect.orDie(project.sql`
        CREATE TRIGGER refused BEFORE UPDATE ON deliveries FOR EACH ROW WHEN (NEW.status = 'delivered')
        EXECUTE FUNCTION refuse()`)
      yield* project.created()
      yield* until(() => sent === 1)
      yield* Context.get(loop, DeliveryLoop).drain
      // Its lease ends by the database's clock; then the delivery is sent again.
      assert.deepInclude((yield* project.deliveries())[0], { status: "delivering", attempts: 1 })
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None"), Effect.scoped)
  )
})
