/** The error of operators' commands about webhooks and deliveries. */
import { Data } from "effect"
import type { ProjectId } from "../api/schema/Ids.ts"

/** A record does not exist, or its state does not allow the command. */
export class CommandRefused extends Data.TaggedError("CommandRefused")<{ readonly message: string }> {}

/** Returns the error of a command that names a record which the project lacks. */
export const lacks = (projectId: ProjectId, record: string) =>
  new CommandRefused({ message: `Project "${projectId}" has no ${record}` })

export const webhookUnknown = (projectId: ProjectId, installationId: string) =>
  lacks(projectId, `webhook for installation "${installationId}"`)
