/** What a program that keeps clients and deals in step with another system needs: batches of any number of items, and changes. */
import { type Duration, Effect, Schedule, Stream } from "effect"
import { WebCrypto } from "effect/crypto"

/** The request of a batch, for `batchClients` or `batchDeals`. */
interface BatchRequest<Item> {
  readonly payload: { readonly items: ReadonlyArray<Item> }
  readonly headers: { readonly "idempotency-key": string }
}

interface Identified {
  readonly externalId: string
}

interface BatchAnswer<Result> {
  readonly body: { readonly results: ReadonlyArray<Result> }
}

export interface BatchOptions {
  /**
   * The beginning of the idempotency keys, which the number of the batch follows: 8 to 140 characters. A program that is run again with the
   * same key and the same items has no second effect. Default: a UUID.
   */
  readonly key?: string | undefined
}

const batchSize = 100

/** How often a batch is repeated because the service was not available for some of its items. */
const repeats = 4

/**
 * Sends items in batches of up to 100, one after the other: `sendBatches(api.clients.batchClients, items)`. A batch whose items failed
 * because the service was not available is sent again with the same key. Returns the result of each item, in their order. An
 * item that repeats an `externalId` is sent in a later batch.
 */
export const sendBatches = <Item extends Identified, Result extends Identified, E, E2 = never>(
  send: (request: BatchRequest<Item>) => Effect.Effect<BatchAnswer<Result>, E>,
  items: Iterable<Item> | Stream.Stream<Item, E2>,
  { key }: BatchOptions = {}
): Stream.Stream<Result, E | E2> =>
  Stream.unwrap(
    Effect.map(WebCrypto.WebCrypto, (crypto) => {
      const prefix = key ?? crypto.randomUUID()
      return (Stream.isStream(items) ? items : Stream.fromIterable(items)).pipe(
        Stream.grouped(batchSize),
        Stream.map(withoutRepeats),
        Stream.flattenIterable,
        Stream.zipWithIndex,
        Stream.mapEffect(([items, index]) =>
          sendWhole(send, { payload: { items }, headers: { "idempotency-key": `${prefix}-${index}` } }, repeats)
        ),
        Stream.flattenIterable
      )
    })
  )

/** Divides items where an external id is repeated, because a batch may have each external id only once. */
const withoutRepeats = <Item extends Identified>(items: ReadonlyArray<Item>): ReadonlyArray<ReadonlyArray<Item>> => {
  const batches: Array<Array<Item>> = []
  let ids = new Set<string>()
  for (const item of items) {
    if (batches.length === 0 || ids.has(item.externalId)) {
      batches.push([])
      ids = new Set()
    }
    ids.add(item.externalId)
    batches.at(-1)?.push(item)
  }
  return batches
}

const sendWhole = <Item, Result extends object, E>(
  send: (request: BatchRequest<Item>) => Effect.Effect<BatchAnswer<Result>, E>,
  request: BatchRequest<Item>,
  left: number
): Effect.Effect<ReadonlyArray<Result>, E> =>
  Effect.flatMap(send(request), ({ body: { results } }) =>
    left > 0 && results.some(isUnavailable)
      ? Effect.delay(sendWhole(send, request, left - 1), 500 * 2 ** (repeats - left))
      : Effect.succeed(results)
  )

const isUnavailable = (result: object): boolean => {
  const problem: unknown = Reflect.get(result, "problem")
  return typeof problem === "object" && problem !== null && Reflect.get(problem, "code") === "service_unavailable"
}

interface Changed {
  readonly id: string
  readonly version: number
  readonly updatedAt: string
}

export interface FollowOptions {
  /** The newest `updatedAt` that the program has stored; the time of the first change that it wants, if it has none. */
  readonly since: string
  /** The pause before the changes are read again. Default: they are read once. */
  readonly every?: Duration.Input | undefined
}

/** A change may be committed this many milliseconds after its `updatedAt` (contract §7). */
const overlap = 60_000

/**
 * Reads the records that have changed, each version once, in the order of their changes:
 * `followChanges((updatedSince) => api.deals.listDeals.items({ query: { updatedSince, lifecycle: "all" } }), { since })`. It begins 60 s
 * before `since`, so the program may already have the first records, in the same `version`. It misses only erasures, which the event
 * `crm.client.erased.v1` reports.
 */
export const followChanges = <Item extends Changed, E>(
  read: (updatedSince: string) => Stream.Stream<Item, E>,
  { every, since }: FollowOptions
): Stream.Stream<Item, E> =>
  Stream.suspend(() => {
    let newest = Date.parse(since)
    // Two periods of known versions: the current one starts at `begin`, and `former` is the one before it. A walk reads nothing older,
    // because it starts 60 s before `newest` and goes in the order of changes.
    let begin = newest
    let versions = new Map<string, number>()
    let former = versions
    const isNew = ({ id, updatedAt, version }: Item) => {
      newest = Math.max(newest, Date.parse(updatedAt))
      if (newest - begin > overlap) [former, versions, begin] = [versions, new Map(), newest]
      const isKnown = (versions.get(id) ?? former.get(id) ?? 0) >= version
      if (!isKnown) versions.set(id, version)
      return !isKnown
    }
    const walk = Stream.suspend(() => Stream.filter(read(new Date(newest - overlap).toISOString()), isNew))
    return every === undefined ? walk : Stream.repeat(walk, Schedule.spaced(every))
  })

/** As `sendBatches`, for `createClient`: the results are read with `for await`, and a failure is thrown there. */
export const sendBatchesPromise = <Item extends Identified, Result extends Identified>(
  send: (request: BatchRequest<Item>) => Promise<BatchAnswer<Result>>,
  items: Iterable<Item> | AsyncIterable<Item>,
  options?: BatchOptions
): AsyncIterable<Result> =>
  Stream.toAsyncIterable(
    sendBatches(
      (request: BatchRequest<Item>) => Effect.promise(() => send(request)),
      Symbol.asyncIterator in items ? Stream.fromAsyncIterable(items, asIs) : Stream.fromIterable(items),
      options
    )
  )

/** As `followChanges`, for `createClient`. */
export const followChangesPromise = <Item extends Changed>(
  read: (updatedSince: string) => AsyncIterable<Item>,
  options: FollowOptions
): AsyncIterable<Item> =>
  Stream.toAsyncIterable(followChanges((since) => Stream.fromAsyncIterable(read(since), asIs), options))

const asIs = (failure: unknown) => failure
