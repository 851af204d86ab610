/**
 * A queue that serves projects in turn. An item has names, such as the key of its command and the record that the command
 * changes. Items with a common name are never in service (between `take` and `done`) at the same time.
 */
import type { Line } from "../sql/Batches.ts"

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
    /** A hash of what the item asks for. Waiting items of a project that ask for the same are taken together, as one. */
    readonly asksFor?: number
  }
}

/**
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

  /** Whether an item waits only for its turn: no item in service shares a name with it. */
  isDelayed(item: Item): boolean {
    const isWaiting = this.waiting.get(item.input.projectId)?.includes(item) ?? false
    return isWaiting && !item.input.names.some((name) => this.served.includes(name))
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
        taken.push(item, ...line.takeEqual(item))
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

  /** Takes the later items that ask for the same as an item that was taken. */
  takeEqual({ input: { asksFor } }: Item): ReadonlyArray<Item> {
    if (asksFor === undefined) return []
    const equal = this.items.filter(({ input }) => input.asksFor === asksFor)
    for (const item of equal) {
      this.items.splice(this.items.indexOf(item), 1)
      this.served.push(...item.input.names)
    }
    return equal
  }
}
