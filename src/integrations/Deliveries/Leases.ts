/** The claims of one process, from their lease to their record. */
import type { Claim } from "./Claim.ts"

export interface Leased extends Claim {
  /** When its attempt starts, or when it was claimed until then; in milliseconds. */
  startedAt: number
}

/**
 * Returns the leases of claims. Those of one endpoint follow each other, and the driver has decoded the same texts for each of them.
 * The leases share one copy: thousands wait at a time, and the garbage collector moves whatever is not garbage by then.
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

/** Returns the first of two equal texts, so that the second is garbage; else the second. */
const oneOf = <A extends string>(known: A | undefined, text: A): A => (known === text ? known : text)
