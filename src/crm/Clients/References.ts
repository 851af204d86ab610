/** The references of a client to a member and an organization, which are checked by the statement that writes it. */

/** Returns LEFT JOINs of the records that a command refers to. They are read by their keys, whatever the plan of the rest is. */
export const clientReferences = (memberId: string, organizationId: string): string => `
  LEFT JOIN LATERAL (
    SELECT id FROM members WHERE project_id = command.project_id AND id = ${memberId} OFFSET 0
  ) AS member ON true
  LEFT JOIN LATERAL (
    SELECT id, archived FROM organizations WHERE project_id = command.project_id AND id = ${organizationId} OFFSET 0
  ) AS organization ON true`

/** Returns the branches of a CASE with the failures of these references. */
export const referenceFailures = (memberId: string, organizationId: string): string => `
  WHEN ${memberId} IS NOT NULL AND member.id IS NULL THEN 'member_not_found'
  WHEN ${organizationId} IS NOT NULL AND organization.id IS NULL THEN 'organization_not_found'
  WHEN organization.archived THEN 'organization_archived'`
