/** Projects with due deliveries, without a worker: the test claims and records, or runs a loop. */
import { ConfigProvider, Effect, Layer, Redacted } from "effect"
import type { Claim } from "../../../src/webhooks/delivery/Attempt.ts"
import { Worker } from "../../../src/work/Worker.ts"
import { answered, claimWith, namedOf, recordAll, resultWith } from "../../support/Claims.ts"
import { secretKey, TestServer } from "../../support/TestServer.ts"
import { open } from "./Deliveries.support.ts"
import { DeliveryLoop } from "../../../src/webhooks/delivery/DeliveryLoop.ts"
import { Sender } from "../../../src/webhooks/address/Sender.ts"
import { Supervisor } from "../../../src/work/Supervisor.ts"
import { Notifier } from "../../../src/outbox/Outbox.ts"
import { SecretBox, SecretKey } from "../../../src/secrets/SecretBox.ts"
import { sqlClients, DatabaseUrl } from "../../../src/sql/Connections.ts"
import { Settings } from "../../../src/platform/Settings.ts"

export const workerId = 1n

/** A worker that considers no other worker dead. */
export const worker: Worker["Service"] = {
  id: workerId,
  leaseId: () => workerId,
  isOnly: () => false,
  isFirst: () => true,
  isDead: (sql) => sql`false`
}

export const nowhere = "http://127.0.0.1:9/"
export const created = ["crm.deal.created.v1"]

/** Opens a project whose webhooks have this number of due deliveries each. */
export const openDue = Effect.fnUntraced(function* (deals = 1, installations: ReadonlyArray<string> = ["shop"]) {
  const project = yield* open(yield* TestServer, installations)
  for (const name of installations) yield* project.subscribe(name, nowhere, created)
  for (let n = 0; n < deals; n++) yield* project.created()
  const { projectId, sql } = project
  return {
    ...project,
    /** Claims deliveries of the project. Its endpoints are named, as after a notice, unless the terms differ. */
    claimed: (concurrency = 4, terms: Parameters<typeof claimWith>[1] = {}) =>
      claimWith(sql, {
        concurrency,
        named: installations.map((name) => namedOf(projectId, name, concurrency)),
        ...terms
      }).pipe(Effect.map(({ claims }) => claims.filter((claim) => claim.projectId === projectId))),
    recorded: (claims: ReadonlyArray<Claim>, outcome = answered(500)) =>
      recordAll(
        sql,
        claims.map((claim) => resultWith(claim, outcome))
      )
  }
})

/** Returns the loop of worker 1 that sends so. */
export const loopWith = (send: Sender["Service"]["send"], isFirst = true) =>
  DeliveryLoop.layer.pipe(
    Layer.provide(Layer.succeed(Sender, { send })),
    Layer.provide(SecretBox.layer),
    Layer.provide(Layer.succeed(Worker, { ...worker, isFirst: () => isFirst })),
    Layer.provide(Notifier.layerInline),
    Layer.provide(Supervisor.layer),
    Layer.provide(Layer.succeed(SecretKey, SecretKey.make(Redacted.make(secretKey)))),
    Layer.provide(Settings.layer),
    Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ SECRET_KEY: secretKey, LOG_LEVEL: "none" })))
  )

/** Starts that loop on the database of a server. */
export const startLoop = ({ databaseUrl }: TestServer["Service"], send: Sender["Service"]["send"]) =>
  loopWith(send).pipe(
    Layer.provide(sqlClients.workers),
    Layer.provide(Layer.succeed(DatabaseUrl, Redacted.make(databaseUrl))),
    Layer.build
  )
