/** The service behind a proxy that records what it sends to PostgreSQL. */
import { Context, Effect, Layer, Redacted } from "effect"
import { makeDatabase } from "../support/TestDatabase.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { startWireProxy, type WireProxy } from "../support/WireProxy.ts"
import { World } from "./Samples.ts"

export class Wire extends Context.Service<Wire, WireProxy>()("developer-api/test/Wire") {
  static readonly layer = Layer.effect(
    Wire,
    Effect.flatMap(makeDatabase(), (url) => startWireProxy(Redacted.value(url)))
  )
}

/** The walk's projects on a server in the role `api`, which runs nothing in the background. */
export const services = World.layerNoDeps.pipe(
  Layer.provideMerge(
    Layer.effect(
      TestServer,
      Effect.flatMap(Wire, ({ url }) => startServer({ DATABASE_URL: url }, "api"))
    )
  ),
  Layer.provideMerge(Wire.layer)
)
