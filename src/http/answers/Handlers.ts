/** Makes the usual handlers of operations: for a page, a record and a command. */
import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { Principal } from "../../api/Authentication.ts"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { anyVersion, type Command, command, type Outcome, versionsOf } from "../../commands/Command.ts"
import type { Page } from "../pages/Pages.ts"
import { pageAnswer, receiptAnswer, recordAnswer } from "./Responses.ts"
import { PreconditionFailed } from "../../api/Problems.ts"
import { etag } from "../../api/schema/Fields.ts"

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

interface ReadConditions {
  readonly "if-match"?: string
  readonly "if-none-match"?: string
}

/** Returns the answer to a read of a record, 304, or the problem `precondition_failed`. `If-Match` comes first. */
const conditionally = <Answer>(
  { "if-match": match, "if-none-match": noneMatch }: ReadConditions,
  version: number,
  answer: () => Answer
): Effect.Effect<Answer | HttpServerResponse.HttpServerResponse, PreconditionFailed> => {
  if (match !== undefined && !includes(versionsOf(match), version)) {
    return Effect.fail(PreconditionFailed.at(version))
  }
  return Effect.succeed(
    // The comparison for `If-None-Match` is weak (section 13.1.2).
    noneMatch !== undefined && includes(versionsOf(noneMatch.replaceAll('W/"', '"')), version)
      ? HttpServerResponse.empty({ status: 304, headers: { etag: etag(version) } })
      : answer()
  )
}

const includes = (versions: ReadonlyArray<number>, version: number) =>
  versions.includes(version) || versions.includes(anyVersion)
