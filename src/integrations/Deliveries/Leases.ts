/** The claims of one process, from their lease to their record. */
import type { Claim } from "./Claim.ts"

export interface Leased extends Claim {
  /** When its attempt starts, or when it was claimed until then; in milliseconds. */
  startedAt: number
}

/**
 * Returns the leases of claims. The driver decodes the texts of an endpoint anew for each claim; successive leases of one
 * endpoint share a single copy. Thousands of leases may wait, so this saves the garbage collector much work.
 */
export const leasesOf = (claims: ReadonlyArray<Claim>, now: number): ReadonlyArray<Leased> => {
  const leases: Array<Leased> = []
  let last = claims[0]
  for (const claim of claims) {
    const lease: Leased = {
      ...claim,
      projectId: oneOf(last?.projectId, claim.projectId),
      installationId: oneOf(last?.installationId, claim.installationId),
      endpointUrl: oneOf(last?.endpointUrl, claim.endpointUrl),
      secrets: oneOf(last?.secrets, claim.secrets),
      startedAt: now
    }
    leases.push(lease)
    last = lease
  }
  return leases
}

/** Returns `known` if both texts are equal, so that the other copy can be collected. */
const oneOf = <A extends string>(known: A | undefined, text: A): A => (known === text ? known : text)
