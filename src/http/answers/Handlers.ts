/** Makes the usual handlers of operations: for a page, a record and a command. */
import { Effect } from "effect"
import type { HttpServerRequest } from "effect/http"
import { Principal } from "../../api/Authentication.ts"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { type Command, command, type Outcome } from "../../commands/Idempotency.ts"
import { conditionally, type ReadConditions } from "./Conditions.ts"
import type { Page } from "../pages/Pages.ts"
import { pageAnswer, receiptAnswer, recordAnswer } from "./Responses.ts"

export const pageHandler =
  <Request extends { readonly request: HttpServerRequest.HttpServerRequest }, Item, E, R>(
    list: (projectId: ProjectId, request: Request) => Effect.Effect<Page<Item>, E, R>
  ) =>
  (request: Request) =>
    Principal.use(({ projectId }) =>
      Effect.flatMap(list(projectId, request), (page) => pageAnswer(page, request.request))
    )

/** `answerOf` makes the answer with the record, unless a condition of the request makes another. */
export const recordHandlerWith =
  <Request extends { readonly headers: ReadConditions }, Item extends { readonly version: number }, Answer, E, R>(
    get: (projectId: ProjectId, request: Request) => Effect.Effect<Item, E, R>,
    answerOf: (item: Item) => Answer
  ) =>
  (request: Request) =>
    Principal.use(({ projectId }) =>
      Effect.flatMap(get(projectId, request), (item) =>
        conditionally(request.headers, item.version, () => answerOf(item))
      )
    )

export const recordHandler = <
  Request extends { readonly headers: ReadConditions },
  Item extends { readonly version: number },
  E,
  R
>(
  get: (projectId: ProjectId, request: Request) => Effect.Effect<Item, E, R>
) => recordHandlerWith(get, recordAnswer)

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
