/** Records with what is nested in them laid flat, as their columns are. An absent member stays absent, and so keeps. */
import { digestOf } from "../../integrations/Preview/Fingerprint.ts"
import type { ProjectFile } from "../ProjectFile.ts"

type Client = NonNullable<ProjectFile["clients"]>[number]
type Installation = NonNullable<ProjectFile["installations"]>[number]
type Segment = NonNullable<ProjectFile["segments"]>[number]
type Ticket = NonNullable<ProjectFile["tickets"]>[number]

const noLoyalty = { cardNumber: null, levelId: null, balance: 0, readyStampOfferIds: [] }

/** Each member of `loyalty` is kept on its own; without a loyalty record a client is as `noLoyalty` says. */
export const clientRecord = ({ loyalty = {}, ...client }: Client) => {
  const { balance, cardNumber, levelId, readyStampOfferIds } = loyalty ?? noLoyalty
  return {
    ...client,
    loyaltyCardNumber: cardNumber,
    loyaltyLevelId: levelId,
    loyaltyBalance: balance,
    readyStampOfferIds
  }
}

const noRating = { score: null, comment: null, by: null }

/** A rating is one value: a new one without a comment doesn't keep the old one's. */
export const ticketRecord = ({ rating, ...ticket }: Ticket) => {
  if (rating === undefined) return ticket
  const { by, comment = null, score } = rating ?? noRating
  return { ...ticket, ratingScore: score, ratingComment: comment, ratingBy: by }
}

/** The staged records themselves are stored apart; their digest tells whether they are others. */
export const installationRecord = ({ importProfile, stagedRecords, ...installation }: Installation) => ({
  ...installation,
  profileVersion: importProfile && importProfile.version,
  profileMappings: importProfile && importProfile.mappings,
  stagedDigest: stagedRecords && digestOf(stagedRecords)
})

/** A segment is a set: in whatever order its clients are named, it is the same. */
export const segmentRecord = ({ clientIds, ...segment }: Segment) => ({
  ...segment,
  clients: clientIds.toSorted().map((clientId) => ({ clientId }))
})
