/** The keys under which this process has lately found or stored an outcome: a command with one of them is a repeat. */
import type { Command } from "./Idempotency.ts"

/** Keys of one generation; at most two generations are kept. */
const generation = 8_192

/** A bounded set of keys that forgets the oldest ones, a generation at a time. */
export class RecentKeys {
  private young = new Set<string>()
  private old = new Set<string>()

  has(command: Pick<Command, "projectId" | "key">): boolean {
    const name = nameOf(command)
    return this.young.has(name) || this.old.has(name)
  }

  add(command: Pick<Command, "projectId" | "key">): void {
    if (this.young.size === generation) {
      this.old = this.young
      this.young = new Set()
    }
    this.young.add(nameOf(command))
  }
}

const nameOf = ({ key, projectId }: Pick<Command, "projectId" | "key">) => `${projectId}\u0000${key}`
