/** The delivery loop alone, on the database of a test. */
import { ConfigProvider, Layer, Redacted } from "effect"
import { DeliveryLoop } from "../../../src/integrations/deliveries/DeliveryLoop.ts"
import { Sender } from "../../../src/integrations/endpoints/Sender.ts"
import { Supervisor } from "../../../src/work/Supervisor.ts"
import { Worker } from "../../../src/work/Worker.ts"
import { Notifier } from "../../../src/outbox/Notifier.ts"
import { SecretBox } from "../../../src/secrets/SecretBox.ts"
import { SecretKey } from "../../../src/secrets/SecretKey.ts"
import { Settings } from "../../../src/platform/Settings.ts"
import { secretKey } from "../../support/TestServer.ts"

/** Returns the loop of worker 1 that sends so. */
export const loopWith = (send: Sender["Service"]["send"], isFirst = true) =>
  DeliveryLoop.layer.pipe(
    Layer.provide(Layer.succeed(Sender, { send })),
    Layer.provide(SecretBox.layer),
    Layer.provide(
      Layer.succeed(Worker, { id: 1n, leaseId: () => 1n, isFirst: () => isFirst, isDead: (sql) => sql`false` })
    ),
    Layer.provide(Notifier.layerInline),
    Layer.provide(Supervisor.layer),
    Layer.provide(Layer.succeed(SecretKey, SecretKey.make(Redacted.make(secretKey)))),
    Layer.provide(Settings.layer),
    Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ SECRET_KEY: secretKey, LOG_LEVEL: "none" })))
  )
