/** The error of operators' commands about records. */
import { Data } from "effect"
import type { ProjectId } from "../../api/schema/Ids.ts"

/** A record does not exist, or its state does not allow the command. */
export class Refused extends Data.TaggedError("Refused")<{ readonly message: string }> {}

export const lacks = (projectId: ProjectId, kind: string, id: string) =>
  new Refused({ message: `Project "${projectId}" has no ${kind} "${id}"` })
