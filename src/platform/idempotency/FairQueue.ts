/** A queue that serves projects in turns, and never two items at once that share a name. */

/** Something to serve. */
export interface Queued {
  readonly projectId: string
  /** What no two items that are served at once may share: the key of a command, the record that it changes. */
  readonly names: ReadonlyArray<string>
}

export class FairQueue<Item extends Queued> {
  /** The items of each project in their order; the projects in the order of their turns. */
  private readonly waiting = new Map<string, Array<Item>>()
  private readonly served = new Set<string>()

  get isEmpty(): boolean {
    return this.waiting.size === 0
  }

  add(item: Item): void {
    const items = this.waiting.get(item.projectId)
    if (items === undefined) this.waiting.set(item.projectId, [item])
    else items.push(item)
  }

  /** Removes an item that waits. */
  remove(item: Item): void {
    const items = this.waiting.get(item.projectId)
    const index = items?.indexOf(item) ?? -1
    if (items === undefined || index < 0) return
    items.splice(index, 1)
    if (items.length === 0) this.waiting.delete(item.projectId)
  }

  /**
   * Takes up to `max` items: one of each project, then another of each, and so on. A project from which items are taken
   * goes to the end of the line. Items that share a name with one that is served stay, until it is done.
   */
  take(max: number): ReadonlyArray<Item> {
    const taken = new Map<string, Array<Item>>()
    for (let found = true, count = 0; found && count < max;) {
      found = false
      for (const [projectId, items] of this.waiting) {
        if (count === max) break
        const index = items.findIndex((item) => this.isFree(item))
        const [item] = index < 0 ? [] : items.splice(index, 1)
        if (item === undefined) continue
        for (const name of item.names) this.served.add(name)
        const ofProject = taken.get(projectId)
        if (ofProject === undefined) taken.set(projectId, [item])
        else ofProject.push(item)
        found = true
        count++
      }
    }
    for (const projectId of taken.keys()) {
      const items = this.waiting.get(projectId) ?? []
      this.waiting.delete(projectId)
      if (items.length > 0) this.waiting.set(projectId, items)
    }
    return [...taken.values()].flat()
  }

  /** Ends the service of an item. */
  done(item: Item): void {
    for (const name of item.names) this.served.delete(name)
  }

  private isFree(item: Item): boolean {
    return item.names.every((name) => !this.served.has(name))
  }
}
