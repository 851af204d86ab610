/**
 * Implements the groups of the Api by `HttpApiBuilder.group`: the usual handlers of operations (for a page, a record and a command), and
 * the bodies and headers of their answers.
 */
import { Context, Effect, type Fiber, Layer, Predicate, Scope } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { Authentication, JsonBody, ProblemHandling, RequestShape } from "../../api/Requests.ts"
import { Principal } from "../../api/Access.ts"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { anyVersion, type Command, command, type Outcome, versionsOf } from "../../commands/Command.ts"
import type { Page } from "../pages/Pages.ts"
import { PreconditionFailed } from "../../api/Problems.ts"
import { etag } from "../../api/schema/Fields.ts"
import { type HttpApi, HttpApiBuilder, type HttpApiEndpoint, type HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { CurrentRequest } from "../../platform/CurrentRequest.ts"
import { Api, endpoints } from "../../api/Api.ts"

export const pageHandler =
  <Request extends { readonly request: HttpServerRequest.HttpServerRequest }, Item, E, R>(
    list: (projectId: ProjectId, request: Request) => Effect.Effect<Page<Item>, E, R>
  ) =>
  (request: Request) =>
    Principal.use(({ projectId }) =>
      Effect.flatMap(list(projectId, request), (page) => pageAnswer(page, request.request))
    )

/** `answerOf` makes the answer with the record. By a condition of the request, the answer may also be 304 or a problem. */
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

/** The base URL of links in answers (`PUBLIC_URL`). Undefined: the base is taken from the `Host` of each request. */
export const PublicUrl = Context.Reference<string | undefined>("developer-api-service/http/path/Handlers/PublicUrl", {
  defaultValue: () => undefined
})

/** The outcomes of the items of a batch, and whether all of them are those of earlier requests. */
export interface Batched<Result> {
  readonly results: ReadonlyArray<Result>
  readonly replayed: boolean
}

export const batchAnswer = <Result>({ replayed, results }: Batched<Result>) =>
  HttpApiSchema.withHeaders({ body: { results }, headers: replayHeader(replayed) })

const recordAnswer = <Item extends { readonly version: number }>(item: Item) =>
  HttpApiSchema.withHeaders({ body: item, headers: { etag: etag(item.version) } })

type Applied = Omit<Outcome<unknown>, "returned">

export const replayHeader = (replayed: boolean): { readonly "idempotent-replayed"?: "true" } =>
  replayed ? { "idempotent-replayed": "true" } : {}

export const unversionedReceiptAnswer = (outcome: Applied) =>
  HttpApiSchema.withHeaders({
    body: { resourceId: outcome.resourceId, changed: outcome.changed },
    headers: replayHeader(outcome.replayed)
  })

const receiptAnswer = (outcome: Applied) => receiptWith(outcome, {})

export const receiptWith = <More extends object>(outcome: Applied, more: More) => {
  const { changed, resourceId, version } = outcome
  if (version === null) throw new Error("The outcome of a command on a versioned record has no version")
  return HttpApiSchema.withHeaders({
    body: { resourceId, changed, ...more },
    headers: { etag: etag(version), ...replayHeader(outcome.replayed) }
  })
}

/** The receipt of an upsert, which has created its record exactly if the record is now at its first version by a change. */
export const upsertAnswer = (outcome: Applied) =>
  Object.assign(receiptAnswer(outcome), { status: hasCreated(outcome) ? 201 : 200 })

export const hasCreated = ({ changed, version }: Applied): boolean => changed && version === 1

export const pageAnswer = <Item>(body: Page<Item>, request: HttpServerRequest.HttpServerRequest) =>
  Effect.withFiber((fiber) =>
    Effect.succeed(HttpApiSchema.withHeaders({ body, headers: linkTo(body.nextCursor, request, fiber) }))
  )

const linkTo = (
  cursor: string | null,
  { headers }: HttpServerRequest.HttpServerRequest,
  fiber: Fiber.Fiber<unknown, unknown>
): { readonly link?: string } => {
  if (cursor === null) return {}
  const origin = fiber.getRef(PublicUrl) ?? originOf(headers["host"])
  return { link: `<${origin}${nextTarget(fiber.getRef(CurrentRequest).target, cursor)}>; rel="next"` }
}

/** Sets the cursor in a request target. The target is not parsed as a URL, because a parser would resolve an id such as `..`. */
const nextTarget = (target: string, cursor: string) => {
  const [path = "", ...rest] = target.split("?")
  const query = new URLSearchParams(rest.join("?"))
  query.delete("cursor")
  query.append("cursor", cursor)
  return `${path.replace(notInPath, encodeURIComponent)}?${query}`
}

/** Characters that HTTP servers accept in a path although a URI must not contain them (RFC 3986, appendix A). */
const notInPath = /[^\x21-\x7E]|[#<>"\\^`{|}]/g

/** Returns the origin of a `Host` header. It is empty for a malformed header, so that the link is relative (RFC 8288). */
const originOf = (host: string | undefined) =>
  host !== undefined && /^(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?$/.test(host) ? `http://${host}` : ""

type ForMiddleware = Scope.Scope | ProblemHandling | Authentication | RequestShape | JsonBody

const pickForMiddleware = Context.pick(Scope.Scope, ProblemHandling, Authentication, RequestShape, JsonBody)

/**
 * Implements a group of the Api. Its operations (`make`) exist once and outside of any request: handlers that yield services would
 * look them up in each request. Drop this when look-ups no longer show in a profile.
 *
 * The group's context is narrowed to its middleware: the builder merges the whole context with that of each request, which costs
 * a copy of some 60 services. Drop this when the builder merges without a copy.
 */
export const groupOf = <const Group extends HttpApiGroup.Identifier<Groups>, Operations, E, R, Return extends Handled>(
  name: Group,
  make: Effect.Effect<Operations, E, R>,
  build: (operations: Operations, handlers: HandleAll<Group>) => Complete<Return>
) =>
  Layer.unwrap(
    Effect.map(make, (operations) => {
      const group = HttpApiBuilder.group(Api, name, (handlers): HttpApiBuilder.Handlers.ValidateReturn<Return> =>
        build(operations, (all) => handlers.handleAll(withoutEncoding(all)))
      )
      return Layer.effectContext(
        Effect.updateContext(Layer.build(group), (context: Context.Context<ForMiddleware>) =>
          pickForMiddleware(context)
        )
      )
    })
  )

type Groups = typeof Api extends HttpApi.HttpApi<string, infer All> ? All : never

/**
 * Names of operations begin with a lower-case letter. If they could be any string here, the compiler would infer the handlers of a
 * group from this type instead of from its operations.
 */
type Handled = HttpApiBuilder.Handlers<ForMiddleware, Record<Name, HttpApiEndpoint.Constraint>, Name>
type Name = Uncapitalize<string>

/** Accepts the handlers of a whole group that need nothing but what each request has. */
type Complete<Return> =
  HttpApiBuilder.Handlers.Context<Return> extends ForMiddleware ? HttpApiBuilder.Handlers.ValidateReturn<Return> : never

type HandleAll<Group extends HttpApiGroup.Identifier<Groups>> = HttpApiBuilder.Handlers.FromGroup<
  HttpApiGroup.WithIdentifier<Groups, Group>
>["handleAll"]

type Handler = (request: { readonly endpoint: HttpApiEndpoint.Top }) => Effect.Effect<unknown, unknown, unknown>

/**
 * Makes handlers whose answers are sent as they are returned: encoding them by their schemas would double the CPU time of a list,
 * and the contract tests validate every answer against the OpenAPI document. Drop this when the builder encodes at the cost of
 * `JSON.stringify`. The returned handlers have the type of the given ones, so the builder still checks the types of their answers.
 */
const withoutEncoding = <Handlers extends object>(handlers: Handlers): Handlers => {
  const whole = Object.entries(handlers).map(([name, handler]: [string, Handler]) => [
    name,
    (request: { readonly endpoint: HttpApiEndpoint.Top }) =>
      Effect.withFiber((fiber) =>
        Effect.mapEager(handler(request), (success) => answerOf(success, request.endpoint.identifier, fiber))
      )
  ])
  return { ...handlers, ...Object.fromEntries(whole) }
}

/** Status of the success of each operation. An answer of an operation with several has a member `status`. */
const statuses = new Map<string, number>()
for (const { endpoint, successes } of endpoints())
  for (const status of successes.keys()) statuses.set(endpoint.identifier, status)

interface Answer {
  readonly body: unknown
  readonly headers: object
  readonly status?: number
}

const answerOf = (success: unknown, operation: string, fiber: Fiber.Fiber<unknown, unknown>) => {
  if (HttpServerResponse.isHttpServerResponse(success)) {
    return HttpServerResponse.setHeaders(success, fiber.getRef(CurrentRequest).headers)
  }
  const { body, headers, status }: Answer = hasHeaders(success) ? success : { body: success, headers: {} }
  const response = HttpServerResponse.text(JSON.stringify(body), {
    status: status ?? statuses.get(operation) ?? 200,
    contentType: "application/json"
  })
  // `response.headers` belongs to this response alone, so it can be changed. Passing the headers as an option would copy them
  // three times.
  Object.assign(response.headers, fiber.getRef(CurrentRequest).headers, headers)
  return response
}

const hasHeaders = (u: unknown): u is HttpApiSchema.withHeaders<unknown, object> & Answer =>
  Predicate.hasProperty(u, HttpApiSchema.WithHeadersValueTypeId)
