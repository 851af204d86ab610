/** The operations of the Api with their handlers, as `HttpApiBuilder.group` registered them. */
import { Context, Effect, Layer, Predicate } from "effect"
import * as HttpApi from "effect/http-api/HttpApi"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import { Api } from "../api/Api.ts"
import { Authentication, Principal } from "../api/Authentication.ts"
import * as Requests from "../api/Requests.ts"
import type { Operation } from "./RequestPath.ts"

type GroupServices =
  typeof Api extends HttpApi.HttpApi<infer Id, infer Groups> ? HttpApiGroup.ToService<Id, Groups> : never

/** Pairs each endpoint with its handler. A group without handlers is a type error, an endpoint without one a defect. */
export const operations: Effect.Effect<ReadonlyArray<Operation>, never, GroupServices> = Effect.contextWith(
  (context: Context.Context<GroupServices>) =>
    Effect.sync(() => {
      const found: Array<Operation> = []
      HttpApi.reflect(Api, {
        onGroup: () => {},
        onEndpoint: ({ endpoint, group, successes }) => {
          const registered = registeredOf(context.mapUnsafe.get(group.key), endpoint.identifier)
          const [status] = successes.keys()
          if (registered === undefined || status === undefined) {
            throw new Error(`The operation ${endpoint.identifier} has no handler or no success`)
          }
          found.push({ group, endpoint, handler: registered.handler, status })
        }
      })
      return found
    })
)

interface Registered {
  readonly handler: Operation["handler"]
}

/** The service of a group holds its handlers by name; the framework does not export its type. */
const registeredOf = (service: unknown, name: string): Registered | undefined => {
  const handlers = Predicate.hasProperty(service, "handlers") ? service.handlers : undefined
  const registered: unknown = handlers instanceof Map ? handlers.get(name) : undefined
  return isRegistered(registered) ? registered : undefined
}

const isRegistered = (u: unknown): u is Registered =>
  Predicate.hasProperty(u, "handler") && typeof u.handler === "function"

const unused = Effect.die(new Error("Requests are authenticated by the request path"))

/**
 * Stand-ins for the middleware that the endpoints declare, which `HttpApiBuilder.group` requires for routes of its own.
 * Those routes are not served: `RequestPath.ts` performs the declared checks.
 */
export const declaredMiddleware = Layer.mergeAll(
  Layer.succeed(
    Requests.Operation,
    Requests.Operation.of((operation) => operation)
  ),
  Layer.succeed(
    Requests.JsonBody,
    Requests.JsonBody.of((operation) => operation)
  ),
  Layer.succeed(
    Authentication,
    Authentication.of({
      DeveloperBearer: (operation) => Effect.provideServiceEffect(operation, Principal, unused)
    })
  )
)
