/**
 * Group commit: concurrent commands of one kind run as one statement, which costs PostgreSQL little more than one command (measured: 3
 * to 4 times the rate of a statement for each). A single command is a group of one. Projects are served in turn.
 *
 * Each command of a group has its own project, key, guards (conditions of its change), outcome and problem. A group never waits
 * for a record. If the record of a command is locked, or if its outcome depends on other commands of the group, the command is
 * undecided. An undecided command runs alone, in a statement that waits. If the statement of a group fails although the database
 * answers, all its commands run alone.
 */
import { Cause, Effect, Exit, type Fiber } from "effect"
import type { IdempotencyKeyReused, ServiceUnavailable } from "../api/Problems.ts"
import { type Call, type Line, makeBatches } from "../sql/Batches.ts"
import { Contended, once } from "../sql/Database.ts"
import { hashOf } from "../platform/Ids.ts"
import { type CommandRow, type Kind, textsOf, undecided } from "./Kind.ts"
import { type Command, type Origin, originOf, type Outcome } from "./Command.ts"
import type { EventType } from "../api/integrations/Events.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { alone, type MutationClient, outcomeOf, replayOrRun } from "./Mutations.ts"

/** Maximum number of commands of a group. It bounds the time of the statement, for which all of them wait. */
const maxGroup = 32
/** Maximum number of groups of a kind in flight. More groups would wait for each other in the database. */
const maxGroups = 2

export const makeGrouped = <Args, Problem, Returned = null>(
  client: MutationClient,
  kind: Kind<Args, Problem>
): ((
  command: Command,
  at: Date,
  args: Args
) => Effect.Effect<Outcome<Returned>, Problem | IdempotencyKeyReused | ServiceUnavailable>) => {
  const { sql } = client
  const texts = textsOf(sql, kind)

  const waiting = (request: Request<Args>) =>
    alone(client, request.command.projectId, sql.unsafe<CommandRow<Returned>>(texts.waiting, parametersOfOne(request)))

  const queue = makeBatches({
    line: new FairQueue<Call<Request<Args>, CommandRow<Returned>, ServiceUnavailable>>(),
    maxBatch: maxGroup,
    maxInFlight: maxGroups,
    isEager: false,
    run: (requests: ReadonlyArray<Request<Args>>) => {
      const { grouped, single } =
        (requests.every((request) => request.isUnsubscribed) && texts.withoutEvents) || texts.withEvents
      return Effect.map(
        once(
          requests.length === 1
            ? sql.unsafe<CommandRow<Returned>>(single, requests.flatMap(parametersOfOne))
            : sql.unsafe<CommandRow<Returned>>(grouped, parameters(requests))
        ),
        (rows) => {
          const decided = new Map(rows.map((row) => [row.ord, row]))
          return requests.map((_, index) => decided.get(index + 1))
        }
      )
    },
    settle: (request, answer) => {
      if (Exit.isFailure(answer)) {
        const failure = unavailableIn(answer.cause)
        return failure === undefined ? waiting(request) : Effect.fail(failure)
      }
      const row = answer.value
      return row === undefined || row.failure === undecided ? waiting(request) : Effect.succeed(row)
    }
  })

  return (command, at, args) => {
    const { key, projectId } = command
    const taken = kind.takes?.(args) ?? []
    const names = [hashOf("key", projectId, key), ...taken.map((name) => hashOf("taken", projectId, name))]
    const run = Effect.withFiber((fiber) =>
      queue({
        projectId,
        names,
        command,
        at,
        args,
        origin: originOf(fiber, command.operation),
        isUnsubscribed: isUnsubscribed(fiber, kind.events?.types)
      })
    )
    return replayOrRun(client, command, outcomeOf(client, command, kind.problems, run))
  }
}

/** Whether the caller's project has no subscriber to events of `types`, as far as its credential tells. */
const isUnsubscribed = (fiber: Fiber.Fiber<unknown, unknown>, types: ReadonlyArray<EventType> = []): boolean => {
  const { caller } = fiber.getRef(CurrentRequest)
  return caller !== undefined && !types.some((type) => caller.eventTypes.includes(type))
}

/** Returns the failure of a group if the database did not answer. The requests would then also fail if each ran alone. */
const unavailableIn = (cause: Cause.Cause<Contended | ServiceUnavailable>): ServiceUnavailable | undefined =>
  cause.reasons
    .filter(Cause.isFailReason)
    .map(({ error }) => error)
    .find((error) => error._tag !== "Contended")

interface Request<Args> {
  readonly projectId: string
  readonly names: ReadonlyArray<number>
  readonly command: Command
  readonly at: Date
  readonly args: Args
  readonly origin: Origin
  readonly isUnsubscribed: boolean
}

const parametersOfOne = <Args>(request: Request<Args>) => {
  const { at, command } = request
  return [command.projectId, command.key, command.fingerprint, at, JSON.stringify(argumentsOf(request))]
}

const parameters = <Args>(requests: ReadonlyArray<Request<Args>>) => [
  requests.map(({ command }) => command.projectId),
  requests.map(({ command }) => command.key),
  requests.map(({ command }) => command.fingerprint),
  requests.map(({ at }) => at),
  JSON.stringify(requests.map(argumentsOf))
]

const argumentsOf = <Args>({ args, command: { ifMatch }, origin }: Request<Args>) => ({ ...args, ifMatch, origin })

/**
 * Number of waiting items at which the queue is full. The limit only bounds memory, so it is large. In an overload, items are
 * refused after a wait: callers who are refused at once also retry at once, and the refusals would take CPU time from the work.
 */
export const capacity = 8_192

export interface Queued {
  readonly input: {
    readonly projectId: string
    /** Hashes of the item's names. */
    readonly names: ReadonlyArray<number>
  }
}

/**
 * A queue that serves projects in turn. An item has names, such as the key of its command and the record that the command
 * changes. Items with a common name are never in service (between `take` and `done`) at the same time.
 *
 * `take` makes a new map each time, because V8 replaces the hash table of a long-lived map every few changes. Each old table
 * keeps the next table and the items of both in memory until the next major garbage collection.
 */
export class FairQueue<Item extends Queued> implements Line<Item> {
  /** The waiting items of each project, in order of arrival. The projects are in the order of their turns. */
  private waiting = new Map<string, Array<Item>>()
  /** Names of the items in service. */
  private readonly served: Array<number> = []
  private size = 0

  get isEmpty(): boolean {
    return this.waiting.size === 0
  }

  /**
   * Whether the queue is full and the project has at least its equal share. A project with less than its share may still add
   * items.
   */
  isFullFor({ input: { projectId } }: Item): boolean {
    const own = this.waiting.get(projectId)?.length ?? 0
    return this.size >= capacity && own >= capacity / this.waiting.size
  }

  add(item: Item): void {
    this.size++
    const items = this.waiting.get(item.input.projectId)
    if (items === undefined) this.waiting.set(item.input.projectId, [item])
    else items.push(item)
  }

  remove(item: Item): void {
    const items = this.waiting.get(item.input.projectId)
    const index = items?.indexOf(item) ?? -1
    if (items === undefined || index < 0) return
    items.splice(index, 1)
    this.size--
    if (items.length === 0) this.waiting.delete(item.input.projectId)
  }

  /**
   * Takes up to `max` items: one of each project, then another of each, and so on. The projects of the taken items go to the end
   * of the order. An item stays in the queue if it shares a name with an item in service, or with an earlier item that stays. So
   * items with a common name are served in order of arrival.
   */
  take(max: number): ReadonlyArray<Item> {
    const taken: Array<Item> = []
    const lines = [...this.waiting].map(([projectId, items]) => new ProjectLine(projectId, items, this.served))
    for (let count = -1; count < taken.length && taken.length < max;) {
      count = taken.length
      for (const line of lines) {
        const item = taken.length < max ? line.take() : undefined
        if (item === undefined) continue
        taken.push(item)
      }
    }
    this.size -= taken.length
    this.waiting = new Map()
    for (const hasServed of [false, true]) {
      for (const line of lines) {
        if (line.hasServed === hasServed && line.items.length > 0) this.waiting.set(line.projectId, line.items)
      }
    }
    return taken
  }

  done(item: Item): void {
    for (const name of item.input.names) this.served.splice(this.served.indexOf(name), 1)
  }
}

/** The items of one project during a `take`. */
class ProjectLine<Item extends Queued> {
  readonly projectId: string
  readonly items: Array<Item>
  hasServed = false
  private readonly served: Array<number>
  /** Names of the items that stay. */
  private readonly blocked = new Set<number>()
  private position = 0

  constructor(projectId: string, items: Array<Item>, served: Array<number>) {
    this.projectId = projectId
    this.items = items
    this.served = served
  }

  take(): Item | undefined {
    for (let item = this.items[this.position]; item !== undefined; item = this.items[this.position]) {
      if (item.input.names.every((name) => !this.served.includes(name) && !this.blocked.has(name))) {
        this.items.splice(this.position, 1)
        this.served.push(...item.input.names)
        this.hasServed = true
        return item
      }
      for (const name of item.input.names) this.blocked.add(name)
      this.position++
    }
    return undefined
  }
}
