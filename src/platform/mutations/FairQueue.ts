/** A queue that serves projects in turn, and never two items with a common name at once. */

/**
 * Number of waiting items at which the queue is full. It bounds memory only: an overload is better met by a refusal after a
 * wait, as callers who are refused at once come again at once, and refusals then take the time of the work.
 */
export const capacity = 8_192

/** An item of the queue. */
export interface Queued {
  readonly projectId: string
  /** Hashes of names that no two items in service share: the key of a command, the record that it changes. */
  readonly names: ReadonlyArray<number>
}

/**
 * No map or set lives on while its entries change with every group. V8 then replaces its table every few entries, and each old
 * table keeps the next one, and what both refer to, until the next major collection.
 */
export class FairQueue<Item extends Queued> {
  /** The waiting items of each project in their order; the projects in the order of their turns. */
  private waiting = new Map<string, Array<Item>>()
  /** Names of the items in service. */
  private readonly served: Array<number> = []
  private size = 0

  get isEmpty(): boolean {
    return this.waiting.size === 0
  }

  /** Whether the queue is full and the project has its equal share of it. A project with less may still add items. */
  isFullFor(projectId: string): boolean {
    const own = this.waiting.get(projectId)?.length ?? 0
    return this.size >= capacity && own >= capacity / this.waiting.size
  }

  /** Whether an item waits only for its turn, not for an item in service that shares a name with it. */
  isDelayed(item: Item): boolean {
    const isWaiting = this.waiting.get(item.projectId)?.includes(item) ?? false
    return isWaiting && !item.names.some((name) => this.served.includes(name))
  }

  add(item: Item): void {
    this.size++
    const items = this.waiting.get(item.projectId)
    if (items === undefined) this.waiting.set(item.projectId, [item])
    else items.push(item)
  }

  /** Removes a waiting item. */
  remove(item: Item): void {
    const items = this.waiting.get(item.projectId)
    const index = items?.indexOf(item) ?? -1
    if (items === undefined || index < 0) return
    items.splice(index, 1)
    this.size--
    if (items.length === 0) this.waiting.delete(item.projectId)
  }

  /**
   * Takes up to `max` items: one of each project, then another of each, and so on. A project that items are taken from
   * goes to the end of the order. Items stay if they share a name with one in service, or with an earlier one that
   * stays, so that items with a common name are served in their order.
   */
  take(max: number): ReadonlyArray<Item> {
    const taken: Array<Item> = []
    const lines = [...this.waiting].map(([projectId, items]) => new Line(projectId, items, this.served))
    for (let count = -1; count < taken.length && taken.length < max;) {
      count = taken.length
      for (const line of lines) {
        const item = taken.length < max ? line.take() : undefined
        if (item !== undefined) taken.push(item)
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

  /** Ends the service of an item. */
  done(item: Item): void {
    for (const name of item.names) this.served.splice(this.served.indexOf(name), 1)
  }
}

/** The items of one project while some are taken. */
class Line<Item extends Queued> {
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

  /** Takes the next item that can be served. */
  take(): Item | undefined {
    for (let item = this.items[this.position]; item !== undefined; item = this.items[this.position]) {
      if (item.names.every((name) => !this.served.includes(name) && !this.blocked.has(name))) {
        this.items.splice(this.position, 1)
        this.served.push(...item.names)
        this.hasServed = true
        return item
      }
      for (const name of item.names) this.blocked.add(name)
      this.position++
    }
    return undefined
  }
}
