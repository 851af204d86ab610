/** Builds the handlers of a group with a context that has the middleware alone, as each request merges that context with its own. */
import { Context, Effect, Layer, Scope } from "effect"
import { Authentication } from "../../api/Authentication.ts"
import { JsonBody, Operation, RequestShape } from "../../api/Requests.ts"

const needed = Context.pick(Scope.Scope, Operation, Authentication, RequestShape, JsonBody)

type Needed = Scope.Scope | Operation | Authentication | RequestShape | JsonBody

export const leanGroup = <Made, E, R, A>(
  make: Effect.Effect<Made, E, R>,
  group: (made: Made) => Layer.Layer<A, never, Needed>
) =>
  Layer.unwrap(
    Effect.map(make, (made) =>
      Layer.effectContext(
        Effect.updateContext(Layer.build(group(made)), (context: Context.Context<Needed>) => needed(context))
      )
    )
  )
