/** The types of the operations of `Api` for callers. All types derive from `Api`, so a new endpoint needs no change here. */
import type { Effect, Schema, Stream, Types } from "effect"
import type { HttpClientError } from "effect/http"
import type { HttpApi, HttpApiClient, HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import type { Api } from "../api/Api.ts"
import type { UnexpectedProblem } from "./Problem.ts"

type Groups = typeof Api extends HttpApi.HttpApi<infer _Id, infer Groups> ? Groups : never

type Endpoints = {
  readonly [Group in Groups as HttpApiGroup.Identifier<Group>]: {
    readonly [Endpoint in HttpApiGroup.Endpoints<Group> as HttpApiEndpoint.Identifier<Endpoint>]: Endpoint
  }
}

/** The names of the groups: `clients`, `deals`, … */
export type GroupName = keyof Endpoints

/** The names of a group's operations: `listClients`, `createClient`, … */
export type OperationName<Group extends GroupName> = keyof Endpoints[Group]

/** The schema that an endpoint declares. `Codec` is the codec that the framework derives from this schema. */
type Declared<Codec> = Codec extends { readonly schema: infer S extends Schema.Constraint } ? S : never

/** The type of a query. Queries are text on the wire; callers pass numbers as numbers. */
type QueryOf<S extends Schema.Constraint> = {
  readonly [Key in keyof S["Encoded"]]: Key extends keyof S["Type"]
    ? [NonNullable<S["Type"][Key]>] extends [number]
      ? S["Type"][Key]
      : S["Encoded"][Key]
    : S["Encoded"][Key]
}

/** A part of a request. It is optional if all its members are optional. */
type Slot<Name extends string, Value> = [Value] extends [never]
  ? unknown
  : Partial<Value> extends Value
    ? { readonly [Key in Name]?: Value }
    : { readonly [Key in Name]: Value }

type RequestTo<Endpoint> = Endpoint extends HttpApiEndpoint.ConstraintRequest
  ? Types.Simplify<
      Slot<"params", Declared<Endpoint["~Params"]>["Encoded"]> &
        ([Endpoint["~Query"]] extends [never]
          ? unknown
          : Slot<"query", Types.Simplify<QueryOf<Declared<Endpoint["~Query"]>>>>) &
        Slot<"headers", Partial<Declared<Endpoint["~Headers"]>["Encoded"]>> &
        ([Endpoint["~Payload"]] extends [never]
          ? unknown
          : { readonly payload: Declared<Endpoint["~Payload"]>["Encoded"] })
    >
  : never

type AnswerOf<Endpoint> = Endpoint extends HttpApiEndpoint.ConstraintRequest
  ? PlainAnswer<HttpApiClient.SuccessType<Endpoint["~Success"]>>
  : never

type PlainAnswer<Success> =
  Success extends HttpApiSchema.withHeaders<infer Body, infer Headers>
    ? { readonly body: Body; readonly headers: Headers }
    : { readonly body: Success; readonly headers: Readonly<Record<never, never>> }

type FailureOf<Endpoint> =
  | HttpApiEndpoint.Errors<Endpoint>
  | UnexpectedProblem
  | HttpClientError.HttpClientError
  | Schema.SchemaError

type ItemOf<Answer> = Answer extends {
  readonly body: { readonly items: ReadonlyArray<infer Item>; readonly nextCursor: string | null }
}
  ? Item
  : never

/**
 * The request of an operation, with its body as JSON and its ids as plain strings. `headers` has the `idempotency-key` and is
 * optional. A `query` without required members is optional too.
 */
export type OperationRequest<Group extends GroupName, Name extends OperationName<Group>> = RequestTo<
  Endpoints[Group][Name]
>

/**
 * The answer of an operation: `{ body, headers }`, where `headers` has those that the operation declares (`etag`, …).
 */
export type OperationAnswer<Group extends GroupName, Name extends OperationName<Group>> = AnswerOf<
  Endpoints[Group][Name]
>

/**
 * The failures of an operation:
 *
 * - the problems that its endpoint declares
 * - `UnexpectedProblem` for a problem that the endpoint does not declare
 * - `HttpClientError` if no answer arrives, or if an unexpected answer is not a problem
 * - `SchemaError` for a success whose body this version of the client cannot decode
 */
export type OperationFailure<Group extends GroupName, Name extends OperationName<Group>> = FailureOf<
  Endpoints[Group][Name]
>

/** The type of the records that a list operation returns; `never` for other operations. */
export type OperationItem<Group extends GroupName, Name extends OperationName<Group>> = ItemOf<
  OperationAnswer<Group, Name>
>

/** The arguments of a method. A request without required members is optional. */
type Arguments<Request> = Partial<Request> extends Request ? [request?: Request] : [request: Request]

/** An operation as a function that returns an Effect. If the answer is a page of a list, the function has the method `items`. */
type Method<Request, Answer, Failure> = ((...args: Arguments<Request>) => Effect.Effect<Answer, Failure>) &
  ([ItemOf<Answer>] extends [never]
    ? unknown
    : {
        /** The records of all pages of the list, from the requested page on. Each page is read when it is needed. */
        readonly items: (...args: Arguments<Request>) => Stream.Stream<ItemOf<Answer>, Failure>
      })

/** The operations of the API as functions that return Effects: `api.<group>.<operation>(request)`. */
export type Operations = {
  readonly [Group in GroupName]: {
    readonly [Name in OperationName<Group>]: Method<
      OperationRequest<Group, Name>,
      OperationAnswer<Group, Name>,
      OperationFailure<Group, Name>
    >
  }
}

/** An operation as a function that returns a Promise. If the answer is a page of a list, the function has the method `items`. */
type PromiseMethod<Request, Answer> = ((...args: [...Arguments<Request>, options?: CallOptions]) => Promise<Answer>) &
  ([ItemOf<Answer>] extends [never]
    ? unknown
    : {
        /**
         * The records of all pages of the list, from the requested page on, to be read with `for await`. Each page is
         * read when it is needed.
         */
        readonly items: (...args: [...Arguments<Request>, options?: CallOptions]) => AsyncIterable<ItemOf<Answer>>
      })

/** Options of one call, passed after its request. */
export interface CallOptions {
  /** Aborts the call and its retries. The promise then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** The operations of the API as functions that return Promises: `client.<group>.<operation>(request, options)`. */
export type PromiseOperations = {
  readonly [Group in GroupName]: {
    readonly [Name in OperationName<Group>]: PromiseMethod<OperationRequest<Group, Name>, OperationAnswer<Group, Name>>
  }
}
