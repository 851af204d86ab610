/** Examples of the types of the client, checked by `npm run check`. They derive from `Api`. */
import { assert, it } from "@effect/vitest"
import type { Stream } from "effect"
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
  WebhookEvent
} from "../../src/client.ts"

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Takes<To, From> = [From] extends [To] ? true : false
type Both<A extends boolean, B extends boolean> = [A, B] extends [true, true] ? true : false
type Not<A extends boolean> = A extends true ? false : true

/** `true` if every check is true, otherwise the names of the others. */
type Every<Checks> = None<
  { [Check in keyof Checks]: Equal<Checks[Check], true> extends true ? never : Check }[keyof Checks]
>

type None<Names> = [Names] extends [never] ? true : Names

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
        readonly externalId?: string
        readonly clientId?: string
        readonly stageId?: string
        readonly updatedSince?: string
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
  readonly events: Equal<WebhookEvent["type"], EventType>
  readonly eventData: Equal<Extract<WebhookEvent, { readonly type: "crm.deal.stage_changed.v1" }>["data"]["deal"], Deal>
}> = true

it("the types of the client are those on which programs rely", () => {
  // The compiler has checked the types.
  assert.isTrue(examples)
})
