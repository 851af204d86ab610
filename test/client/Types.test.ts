/**
 * The types of the client compared with those of `Api`, by `npm run check`: a client that differs from the API does not
 * compile.
 */
import { assert, it } from "@effect/vitest"
import type { Effect, Schema, Stream } from "effect"
import type { HttpClientError } from "effect/http"
import type { HttpApi, HttpApiClient, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import type { Api } from "../../src/api/Api.ts"
import type { Client, ClientCreate } from "../../src/api/crm/Clients.ts"
import type { Deal } from "../../src/api/crm/Deals.ts"
import type { Note } from "../../src/api/crm/Notes.ts"
import type { EventType } from "../../src/api/integrations/Events.ts"
import type { MessageReceipt } from "../../src/api/messaging/Messaging.ts"
import type * as Problems from "../../src/api/Problems.ts"
import type {
  DeveloperClient,
  GroupName,
  OperationAnswer,
  OperationFailure,
  OperationItem,
  OperationName,
  OperationRequest,
  Operations,
  Problem,
  UnexpectedProblem,
  WebhookEvent
} from "../../src/client.ts"

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Takes<To, From> = [From] extends [To] ? true : false
type Both<A extends boolean, B extends boolean> = [A, B] extends [true, true] ? true : false
type Not<A extends boolean> = A extends true ? false : true

type Groups = typeof Api extends HttpApi.HttpApi<infer _Id, infer Groups> ? Groups : never
type EndpointOf<Group, Name> = HttpApiEndpoint.WithIdentifier<
  HttpApiGroup.Endpoints<HttpApiGroup.WithIdentifier<Groups, Group & string>>,
  Name & string
>

/** The request type of the framework's own client, without headers: decoded values, with defaults. */
type Decoded<Endpoint> = Endpoint extends HttpApiEndpoint.ConstraintRequest
  ? Omit<
      HttpApiEndpoint.ClientRequest<
        Extract<Endpoint["~Params"], Schema.Top>,
        Extract<Endpoint["~Query"], Schema.Top>,
        Extract<Endpoint["~Payload"], Schema.Top>,
        Extract<Endpoint["~Headers"], Schema.Top>,
        "decoded-only"
      >,
      "headers" | "responseMode" | "sseOptions"
    >
  : never

type Failures = HttpClientError.HttpClientError | Schema.SchemaError | UnexpectedProblem

/** `true` if every check is true, otherwise the names of the others. */
type Every<Checks> = None<
  { [Check in keyof Checks]: Equal<Checks[Check], true> extends true ? never : Check }[keyof Checks]
>

type None<Names> = [Names] extends [never] ? true : Names

type ItemsOf<Operation> = Takes<{ readonly items: unknown }, Operation>

/** What holds for one operation. */
type OperationChecks<Group extends GroupName, Name extends OperationName<Group>> = {
  readonly answer: Equal<OperationAnswer<Group, Name>, HttpApiEndpoint.Success<EndpointOf<Group, Name>>["Type"]>
  readonly isAnswered: Not<Equal<OperationAnswer<Group, Name>, never>>
  readonly failure: Equal<OperationFailure<Group, Name>, HttpApiEndpoint.Errors<EndpointOf<Group, Name>> | Failures>
  readonly request: Takes<OperationRequest<Group, Name>, Decoded<EndpointOf<Group, Name>>>
  readonly headers: Not<Takes<{ readonly headers: unknown }, OperationRequest<Group, Name>>>
  readonly effect: Operations[Group][Name] extends (
    ...args: infer _Arguments
  ) => Effect.Effect<infer Answer, infer Failure>
    ? Both<Equal<Answer, OperationAnswer<Group, Name>>, Equal<Failure, OperationFailure<Group, Name>>>
    : false
  readonly promise: DeveloperClient[Group][Name] extends (...args: infer _Arguments) => Promise<infer Answer>
    ? Equal<Answer, OperationAnswer<Group, Name>>
    : false
  readonly items: Equal<
    [ItemsOf<Operations[Group][Name]>, ItemsOf<DeveloperClient[Group][Name]>],
    OperationAnswer<Group, Name> extends { readonly body: { readonly items: unknown } } ? [true, true] : [false, false]
  >
}

type Checked = {
  readonly [Group in GroupName]: { readonly [Name in OperationName<Group>]: OperationChecks<Group, Name> }
}

const everyOperation: Every<{
  readonly groups: Both<
    Equal<GroupName, HttpApiGroup.Identifier<Groups>>,
    Equal<keyof Operations, keyof HttpApiClient.ForApi<typeof Api>>
  >
  readonly isMethod: None<
    {
      [Group in GroupName]: Exclude<
        keyof HttpApiClient.ForApi<typeof Api>[Group],
        keyof Operations[Group] & keyof DeveloperClient[Group]
      >
    }[GroupName]
  >
  /** The checks that fail, each with its operation. */
  readonly checks: None<
    {
      [Group in GroupName]: {
        [Name in keyof Checked[Group]]: {
          [Check in keyof Checked[Group][Name]]: Checked[Group][Name][Check] extends true ? never : [Name, Check]
        }[keyof Checked[Group][Name]]
      }[keyof Checked[Group]]
    }[GroupName]
  >
}> = true

type Calls<Group extends GroupName, Name extends OperationName<Group>> = Parameters<
  Extract<DeveloperClient[Group][Name], (...args: never) => unknown>
>

/** An example of each kind of type on which programs rely. */
const examples: Every<{
  readonly get: Equal<OperationRequest<"clients", "getClient">["params"], { readonly clientId: string }>
  readonly record: Equal<OperationAnswer<"clients", "getClient">["body"], Client>
  readonly etag: Equal<OperationAnswer<"clients", "getClient">["headers"], { readonly etag: string }>
  readonly plainIds: Takes<Calls<"deals", "createDeal">, [{ payload: { title: string; clientId: string | null } }]>
  readonly brandedIds: Takes<Calls<"deals", "getDeal">, [{ params: { dealId: Deal["id"] } }]>
  readonly payload: Equal<OperationRequest<"clients", "createClient">["payload"], ClientCreate>
  readonly needsPayload: Not<Takes<Calls<"clients", "createClient">, []>>
  readonly knowsMembers: Not<Takes<Calls<"deals", "getDeal">, [{ params: { noteId: string } }]>>
  readonly keyIsOptional: Takes<
    Calls<"notes", "createNote">,
    [{ params: { dealId: string }; payload: { body: string }; headers: { "idempotency-key": string } }]
  >
  readonly numbersInQueries: Takes<
    Calls<"notes", "deleteNote">,
    [{ params: { dealId: string; noteId: string }; query: { expectedVersion: number } }, { signal: AbortSignal }]
  >
  readonly versionIsRequired: Not<Takes<Calls<"notes", "deleteNote">, [{ params: { dealId: string; noteId: string } }]>>
  readonly withoutArguments: Both<Takes<Calls<"clients", "listClients">, []>, Takes<Calls<"deals", "listDeals">, []>>
  readonly filters: Equal<
    OperationRequest<"deals", "listDeals">["query"],
    | {
        readonly limit?: number
        readonly cursor?: string
        readonly lifecycle?: "active" | "archived" | "all"
        readonly status?: "open" | "won" | "lost" | "all"
      }
    | undefined
  >
  readonly items: Equal<OperationItem<"notes", "listNotes">, Note>
  readonly noItems: Equal<OperationItem<"notes", "createNote">, never>
  readonly stream: Equal<
    ReturnType<Operations["deals"]["listDeals"]["items"]>,
    Stream.Stream<Deal, OperationFailure<"deals", "listDeals">>
  >
  readonly iterable: Equal<ReturnType<DeveloperClient["deals"]["listDeals"]["items"]>, AsyncIterable<Deal>>
  readonly message: Equal<OperationAnswer<"messaging", "sendMessage">["body"], MessageReceipt>
  readonly conflict: Takes<OperationFailure<"notes", "patchNote">, Problems.VersionConflict>
  readonly noConflict: Not<Takes<OperationFailure<"notes", "createNote">, Problems.VersionConflict>>
  readonly problem: Both<Takes<Problem, Problems.ProviderConflict>, Takes<Problem, Problems.MethodNotAllowed>>
  readonly everyFailureIsKnown: Takes<
    Problem | Failures,
    { [Group in GroupName]: OperationFailure<Group, OperationName<Group>> }[GroupName]
  >
  readonly events: Equal<WebhookEvent["type"], EventType>
  readonly eventData: Equal<Extract<WebhookEvent, { readonly type: "crm.deal.stage_changed.v1" }>["data"]["deal"], Deal>
}> = true

it("the types of the client are those of the API", () => {
  // The compiler has checked the types.
  assert.isTrue(everyOperation && examples)
})
