/** For operators, who name the installation. */
import { Data } from "effect"
import type { ProjectId } from "../api/Ids.ts"

export class WebhookUnknown extends Data.TaggedError("WebhookUnknown")<{
  readonly projectId: ProjectId
  readonly installationId: string
}> {
  override get message() {
    return `Project "${this.projectId}" has no webhook for installation "${this.installationId}"`
  }
}
