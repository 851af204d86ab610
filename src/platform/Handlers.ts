/** Handlers of the usual operations on the caller's project: a page, a record, a command. */
import { Effect } from "effect"
import type { HttpServerRequest } from "effect/http"
import { Principal } from "../api/Authentication.ts"
import type { ProjectId } from "../api/Ids.ts"
import { type Command, command, type Outcome } from "./idempotency/Idempotency.ts"
import type { Page } from "./Pages.ts"
import { pageAnswer, receiptAnswer, recordAnswer } from "./Responses.ts"

/** Handles a list. */
export const pageHandler =
  <Request extends { readonly request: HttpServerRequest.HttpServerRequest }, Item, E, R>(
    list: (projectId: ProjectId, request: Request) => Effect.Effect<Page<Item>, E, R>
  ) =>
  (request: Request) =>
    Principal.use(({ projectId }) =>
      Effect.flatMap(list(projectId, request), (page) => pageAnswer(page, request.request))
    )

/** Handles the read of a record with a version. */
export const recordHandler =
  <Request, Item extends { readonly version: number }, E, R>(
    get: (projectId: ProjectId, request: Request) => Effect.Effect<Item, E, R>
  ) =>
  (request: Request) =>
    Principal.use(({ projectId }) => Effect.map(get(projectId, request), recordAnswer))

/** Handles a command that answers a receipt. */
export const commandHandler =
  <Request extends Parameters<typeof command>[1], E, R>(
    run: (command: Command, request: Request, principal: Principal["Service"]) => Effect.Effect<Outcome<unknown>, E, R>
  ) =>
  (request: Request) =>
    Principal.use((principal) =>
      Effect.map(run(command(principal.projectId, request), request, principal), receiptAnswer)
    )
