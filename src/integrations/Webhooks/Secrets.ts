import type { InstallationId, ProjectId } from "../../api/Ids.ts"

/** What the signing secrets of a webhook are sealed for. */
export const secretOwner = (projectId: ProjectId, id: InstallationId) => ["webhook", projectId, id]
