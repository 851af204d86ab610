import { Data } from "effect"

/** No project has this id. */
export class ProjectUnknown extends Data.TaggedError("ProjectUnknown")<{ readonly projectId: string }> {
  override get message() {
    return `There is no project "${this.projectId}"`
  }
}
