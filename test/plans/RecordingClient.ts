/** The clients of `sql/Client.ts`, wrapped to record each statement that is built with them. */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Client from "../../src/sql/Client.ts"
import { recording } from "./Recorded.ts"

export const layer: typeof Client.layer = (pool, options) =>
  Layer.effect(
    SqlClient.SqlClient,
    Effect.map(Layer.build(Client.layer(pool, options)), (context) =>
      recording(Context.get(context, SqlClient.SqlClient), options)
    )
  )
