/** The API as Promises, for programs that don't use Effect. */
import { Cause, Effect, Exit, Layer } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { type Answer, itemsOf, nextPage } from "./Calls.ts"
import { DeveloperApi, type DeveloperApiOptions } from "./DeveloperApi.ts"
import type { CallOptions, PromiseOperations } from "./Operations.ts"
import type { Written } from "./RequestForm.ts"

/** Of `createClient`. */
export interface ClientOptions extends DeveloperApiOptions {
  /** In place of the platform's. */
  readonly fetch?: typeof globalThis.fetch | undefined
}

/** A client holds nothing open: there is nothing to close. */
export type DeveloperClient = PromiseOperations

/** An operation whose types are known only to `PromiseOperations`. */
type Call = (request?: Written) => Effect.Effect<Answer, unknown>

/**
 * `client.<group>.<operation>(request, { signal })` for every operation, and `….items(request)` for the records of all
 * pages of a list, to be read with `for await`, page by page.
 *
 * It does what `DeveloperApi` does. What the API answers with a status of 400 and above rejects as an instance of its
 * class in `Problems`, with `code`, `status`, `detail` and whatever belongs to the code (`isProblem` tells them apart);
 * no answer, or one that makes no sense, as an Effect `HttpClientError` or `SchemaError`; a call that its signal ended,
 * with the signal's reason. Throws a `TypeError` when `baseUrl` or `token` can't be one.
 */
export const createClient = ({ fetch, ...options }: ClientOptions): DeveloperClient => {
  const layer =
    fetch === undefined
      ? DeveloperApi.layer(options)
      : DeveloperApi.layer(options).pipe(Layer.provide(Layer.succeed(FetchHttpClient.Fetch, fetch)))
  const api = Effect.runSync(Effect.provide(DeveloperApi, layer))
  // Walking the operations, the compiler knows no longer which is whose. test/client/Types.test.ts does.
  return Object.fromEntries(
    Object.entries(api as unknown as Readonly<Record<string, Readonly<Record<string, Call>>>>).map(([group, calls]) => [
      group,
      Object.fromEntries(Object.entries(calls).map(([name, call]) => [name, promised(call)]))
    ])
  ) as unknown as DeveloperClient
}

const promised = (call: Call) => {
  const send = (request?: Written, options?: CallOptions) => run(call(request), options?.signal)
  return "items" in call ? Object.assign(send, { items: pages(send) }) : send
}

const run = async <A, E>(effect: Effect.Effect<A, E>, signal: AbortSignal | undefined): Promise<A> => {
  const exit = await effect.pipe(
    // There is no tracer, so its spans would be the parents of nothing.
    Effect.provideService(HttpClient.TracerPropagationEnabled, false),
    (untraced) => Effect.runPromiseExit(untraced, { signal })
  )
  if (Exit.isSuccess(exit)) return exit.value
  throw signal?.aborted === true && Cause.hasInterruptsOnly(exit.cause) ? signal.reason : Cause.squash(exit.cause)
}

const pages = (send: (request?: Written, options?: CallOptions) => Promise<Answer>) =>
  async function* (request: Written = {}, options?: CallOptions) {
    let at: Written | undefined = request
    while (at !== undefined) {
      const answer: Answer = await send(at, options)
      yield* itemsOf(answer)
      at = nextPage(at, answer)
    }
  }
