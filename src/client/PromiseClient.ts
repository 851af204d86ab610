/** The API as Promises, for programs without Effect. */
import { Cause, Effect, Exit, Layer, Record } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import {
  type Answer,
  type Call,
  DeveloperApi,
  type DeveloperApiOptions,
  isCall,
  itemsOf,
  nextPage
} from "./DeveloperApi.ts"
import type { CallOptions, PromiseOperations } from "./Operations.ts"
import type { CallerRequest } from "./Retries.ts"

/** The options of `DeveloperApi`, and a `fetch` of the caller. */
export interface ClientOptions extends DeveloperApiOptions {
  /** Replaces the platform's `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined
}

/** A client holds no resources, so nothing has to be closed. */
export type DeveloperClient = PromiseOperations

/**
 * Makes a client: `client.<group>.<operation>(request, { signal })` for every operation, and `….items(request)` for the records
 * of all pages of a list, read with `for await`, page by page.
 *
 * The client behaves like `DeveloperApi`. If an answer is a problem, the promise rejects with an instance of its class in
 * `Problems`, or with `UnexpectedProblem` if the operation does not declare it. `isProblem` recognizes both. Both have `code`,
 * `status` and `detail`. The classes in `Problems` also have the problem's further members. If no answer arrives, or an answer
 * cannot be decoded, the promise rejects with an Effect `HttpClientError` or `SchemaError`. If the call is aborted, the promise
 * rejects with the signal's reason. Throws a `TypeError` when `baseUrl` or `token` is invalid.
 */
export const createClient = ({ fetch, ...options }: ClientOptions): DeveloperClient => {
  const layer =
    fetch === undefined
      ? DeveloperApi.layer(options)
      : DeveloperApi.layer(options).pipe(Layer.provide(Layer.succeed(FetchHttpClient.Fetch, fetch)))
  const api = Effect.runSync(Effect.provide(DeveloperApi, layer))
  const groups: Record<string, Record<string, unknown>> = Record.map({ ...api }, (calls) =>
    Record.map<string, unknown, unknown>({ ...calls }, (call) =>
      isCall<CallerRequest | undefined>(call) ? promiseCall(call) : call
    )
  )
  return groups as DeveloperClient
}

const promiseCall = (call: Call<CallerRequest | undefined>) => {
  const send = (request?: CallerRequest, options?: CallOptions) => run(call(request), options?.signal, new Error())
  return "items" in call ? Object.assign(send, { items: pages(send) }) : send
}

/** `called` has the stack of the call. */
const run = async <A, E>(effect: Effect.Effect<A, E>, signal: AbortSignal | undefined, called: Error): Promise<A> => {
  const exit = await effect.pipe(
    // No tracer exports the spans, so no trace headers are sent.
    Effect.provideService(HttpClient.TracerPropagationEnabled, false),
    (untraced) => Effect.runPromiseExit(untraced, { signal })
  )
  if (Exit.isSuccess(exit)) return exit.value
  if (signal?.aborted === true && Cause.hasInterruptsOnly(exit.cause)) throw signal.reason
  throw withCaller(Cause.squash(exit.cause), called)
}

/**
 * Replaces the stack of a failure, which leads through the fiber that has sent the request, by the stack of the call, and shows
 * the failure in logs like other errors, without the marks of the framework.
 */
const withCaller = (failure: unknown, { stack = "" }: Error): unknown => {
  if (!(failure instanceof Error)) return failure
  const frames = stack.split("\n").filter((line) => /^ *at /.test(line) && !line.includes(import.meta.url))
  const hidden = (value: unknown) => ({ value, configurable: true, writable: true, enumerable: false })
  const marks = Object.entries(failure).filter(([name]) => name.startsWith("~"))
  return Object.defineProperties(failure, {
    ...Object.fromEntries(marks.map(([name, value]) => [name, hidden(value)])),
    stack: hidden(`${failure.name}: ${failure.message}\n${frames.join("\n")}`),
    [Symbol.for("nodejs.util.inspect.custom")]: hidden(undefined)
  })
}

const pages = (send: (request?: CallerRequest, options?: CallOptions) => Promise<Answer>) =>
  async function* (request: CallerRequest = {}, options?: CallOptions) {
    let at: CallerRequest | undefined = request
    while (at !== undefined) {
      const answer: Answer = await send(at, options)
      yield* itemsOf(answer)
      at = nextPage(at, answer)
    }
  }
