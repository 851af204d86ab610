import { Data } from "effect"
import type { ProjectId } from "../api/schema/Ids.ts"

/** An operator's command failed: the record does not exist, or its state does not allow the command. */
export class Refused extends Data.TaggedError("Refused")<{ readonly message: string }> {}

export const lacks = (projectId: ProjectId, kind: string, id: string) =>
  new Refused({ message: `Project "${projectId}" has no ${kind} "${id}"` })
