/** Flattens the nested members of records to columns. An absent member stays absent, and so keeps its stored value. */
import { digestOf } from "../../integrations/StagedBatches.ts"
import type { ProjectFile } from "../ProjectFile.ts"

type Client = NonNullable<ProjectFile["clients"]>[number]
type Installation = NonNullable<ProjectFile["installations"]>[number]
type Segment = NonNullable<ProjectFile["segments"]>[number]
type Ticket = NonNullable<ProjectFile["tickets"]>[number]

const noLoyalty = { cardNumber: null, levelId: null, balance: 0, readyStampOfferIds: [] }

/** Each member of `loyalty` is kept separately. Without a loyalty record a client has the values of `noLoyalty`. */
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

/** A rating is one value: a new rating without a comment removes the old comment. */
export const ticketRecord = ({ rating, ...ticket }: Ticket) => {
  if (rating === undefined) return ticket
  const { by, comment = null, score } = rating ?? noRating
  return { ...ticket, ratingScore: score, ratingComment: comment, ratingBy: by }
}

/** The staged records are stored separately; their digest shows whether they differ. */
export const installationRecord = ({ importProfile, stagedRecords, ...installation }: Installation) => ({
  ...installation,
  profileVersion: importProfile && importProfile.version,
  profileMappings: importProfile && importProfile.mappings,
  stagedDigest: stagedRecords && digestOf(stagedRecords)
})

/** A segment is a set: the order of its clients does not matter. */
export const segmentRecord = ({ clientIds, ...segment }: Segment) => ({
  ...segment,
  clients: clientIds.toSorted().map((clientId) => ({ clientId }))
})
