/** The types of the handlers of an API group, and functions that make the usual handlers: for a page, a record and a command. */
import { Effect } from "effect"
import type { HttpServerRequest, HttpServerResponse } from "effect/http"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import type { Api } from "../../api/Api.ts"
import { Principal } from "../../api/Authentication.ts"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { type Command, command, type Outcome } from "../mutations/Idempotency.ts"
import type { Page } from "./Pages.ts"
import { pageAnswer, receiptAnswer, recordAnswer } from "./Responses.ts"

type Groups = (typeof Api)["groups"]

type Handler<Endpoint extends HttpApiEndpoint.Constraint> = HttpApiEndpoint.Handler<
  Endpoint,
  HttpApiEndpoint.MiddlewareError<Endpoint>,
  Principal
>

/** Like `Handler`, but a success is always a value that the endpoint's schema encodes, never a whole HTTP response. */
type HandlerOf<Endpoint> = Endpoint extends HttpApiEndpoint.Constraint
  ? (
      ...request: Parameters<Handler<Endpoint>>
    ) => Effect.Effect<
      Exclude<Effect.Success<ReturnType<Handler<Endpoint>>>, HttpServerResponse.HttpServerResponse>,
      Effect.Error<ReturnType<Handler<Endpoint>>>,
      Principal
    >
  : never

export type HandlersOf<Group extends keyof Groups> = {
  readonly [Name in keyof Groups[Group]["endpoints"]]: HandlerOf<Groups[Group]["endpoints"][Name]>
}

/** Makes the handlers of a group. A missing handler, or a handler that does not fit its endpoint, is a type error. */
export const handlersOf = <const Group extends keyof Groups, E, R>(
  _group: Group,
  make: (define: (handlers: HandlersOf<Group>) => HandlersOf<Group>) => Effect.Effect<HandlersOf<Group>, E, R>
): Effect.Effect<HandlersOf<Group>, E, R> => make((handlers) => handlers)

export const pageHandler =
  <Request extends { readonly request: HttpServerRequest.HttpServerRequest }, Item, E, R>(
    list: (projectId: ProjectId, request: Request) => Effect.Effect<Page<Item>, E, R>
  ) =>
  (request: Request) =>
    Principal.use(({ projectId }) =>
      Effect.flatMap(list(projectId, request), (page) => pageAnswer(page, request.request))
    )

export const recordHandler =
  <Request, Item extends { readonly version: number }, E, R>(
    get: (projectId: ProjectId, request: Request) => Effect.Effect<Item, E, R>
  ) =>
  (request: Request) =>
    Principal.use(({ projectId }) => Effect.map(get(projectId, request), recordAnswer))

export const commandWith =
  <Request extends Parameters<typeof command>[1], Done, Answer, E, R>(
    run: (command: Command, request: Request, principal: Principal["Service"]) => Effect.Effect<Done, E, R>,
    answerOf: (outcome: Done) => Answer
  ) =>
  (request: Request) =>
    Principal.use((principal) => Effect.map(run(command(principal.projectId, request), request, principal), answerOf))

export const commandHandler = <Request extends Parameters<typeof command>[1], E, R>(
  run: (command: Command, request: Request, principal: Principal["Service"]) => Effect.Effect<Outcome<unknown>, E, R>
) => commandWith(run, receiptAnswer)
