import { Data } from "effect"
import type { ProjectId } from "../../api/schema/Ids.ts"

/** An operator names an installation without a webhook. */
export class WebhookUnknown extends Data.TaggedError("WebhookUnknown")<{
  readonly projectId: ProjectId
  readonly installationId: string
}> {
  override get message() {
    return `Project "${this.projectId}" has no webhook for installation "${this.installationId}"`
  }
}
