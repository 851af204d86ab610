/** The keys under which this process has lately found or stored an outcome: a command with one of them is a repeat. */
import { RecentSet } from "../RecentSet.ts"
import type { Command } from "./Idempotency.ts"

export class RecentKeys {
  private readonly names = new RecentSet()

  has(command: Pick<Command, "projectId" | "key">): boolean {
    return this.names.has(nameOf(command))
  }

  add(command: Pick<Command, "projectId" | "key">): void {
    this.names.add(nameOf(command))
  }
}

const nameOf = ({ key, projectId }: Pick<Command, "projectId" | "key">) => `${projectId}\u0000${key}`
