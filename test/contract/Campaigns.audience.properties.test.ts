/** Freezes of random projects with random filters, against a model of contract §9 that handles one client at a time. */
import { assert, layer } from "../support/Vitest.ts"
import * as fc from "fast-check"
import { type AudienceFilter, type Exclusion, exclusions } from "../../src/api/campaigns/Audience.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { callsOf } from "./Campaigns.support.ts"

const channels = [
  { id: "k", providerType: "sandbox", displayName: "K" },
  { id: "l", providerType: "sandbox", displayName: "L" },
  { id: "m", providerType: "telegram", displayName: "M", config: { token: "1:a" } },
  { id: "n", providerType: "sandbox", displayName: "N" }
] as const

/** Texts whose order differs by bytes, by UTF-16 units and by a dictionary's rules. */
const ids = ["a", "B", "b", "~", "!", "'", "10", "9", "_", "A"]

const some = (...values: ReadonlyArray<string>) => fc.subarray([...values])
const rarely = fc.integer({ min: 0, max: 9 }).map((n) => n === 0)
const mostly = rarely.map((rare) => !rare)

const clientOf = (id: string) =>
  fc.record({
    id: fc.constant(id),
    displayName: fc.constant(`Name of ${id}`),
    tags: some("red", "green", "blue"),
    status: fc.constantFrom("active" as const, "active" as const, "archived" as const),
    marketingConsent: mostly,
    suppressed: rarely,
    merged: rarely,
    createdAt: fc.constantFrom("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.001Z", "2026-02-01T00:00:00.000Z"),
    addresses: fc.uniqueArray(
      fc.record({ channelId: fc.constantFrom("k", "l", "m", "n"), address: fc.constantFrom("1", "1", "2") }),
      { maxLength: 3, selector: ({ address, channelId }) => `${channelId} ${address}` }
    ),
    loyalty: fc.option(
      fc.record({
        cardNumber: fc.constantFrom(null, "card"),
        levelId: fc.constantFrom(null, "silver", "gold"),
        balance: fc.constantFrom(0, 5, 10),
        readyStampOfferIds: some("coffee", "cake")
      }),
      { nil: null }
    )
  })
type ModelClient = ReturnType<typeof clientOf> extends fc.Arbitrary<infer Client> ? Client : never

const dealOf = (clientIds: ReadonlyArray<string>) =>
  fc.record({
    clientId: fc.constantFrom(null, ...clientIds),
    stageId: fc.constantFrom("new", "offer", "done"),
    status: fc.constantFrom("open" as const, "open" as const, "won" as const),
    lifecycle: fc.constantFrom("active" as const, "active" as const, "archived" as const)
  })
type ModelDeal = ReturnType<typeof dealOf> extends fc.Arbitrary<infer Deal> ? Deal : never

/** A project: its clients, their deals, the clients of its one segment, and its revoked channel. Other projects have equal ids. */
interface World {
  readonly clients: ReadonlyArray<ModelClient>
  readonly deals: ReadonlyArray<ModelDeal>
  readonly members: ReadonlyArray<string>
  readonly revoked: string
}

const world: fc.Arbitrary<World> = fc.shuffledSubarray(ids).chain((ids) =>
  fc.record({
    clients: fc.tuple(...ids.map(clientOf)),
    deals: fc.array(dealOf(ids), { maxLength: 6 }),
    members: fc.subarray(ids),
    revoked: fc.constantFrom("k", "n", "n")
  })
)

const usually = <T>(value: T, ...others: ReadonlyArray<T>) =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(value) }, fc.constantFrom(value, ...others))

const filter: fc.Arbitrary<AudienceFilter> = fc.record({
  contactStatus: fc.constantFrom("active" as const, "archived" as const, "all" as const, "all" as const),
  segmentId: usually<string | null>(null, "segment"),
  providerTypes: usually<ReadonlyArray<string>>([], ["sandbox"], ["telegram"], ["telegram", "sandbox"], ["none"]),
  requiredTags: usually<ReadonlyArray<string>>([], ["red"], ["red", "blue"], ["none"], ["red", "red"]),
  stageIds: usually<ReadonlyArray<string>>([], ["new"], ["new", "offer"], ["none"], ["none", "done"]),
  loyaltyCardRequired: usually(false, true),
  loyaltyLevelIds: usually<ReadonlyArray<string>>([], ["gold"], ["gold", "silver"], ["none"]),
  minimumLoyaltyBalance: usually<number | null>(null, 0, 5, 6, 10, 1_000_000_000),
  readyStampOfferIds: usually<ReadonlyArray<string>>([], ["coffee"], ["cake", "coffee"], ["none"])
})

/** Returns the project as a file. A merged client is merged into the first other one. */
const fileOf = ({ clients, deals, members, revoked }: World): Parts => ({
  project: { defaultPipelineId: "p" },
  pipelines: [{ id: "p", name: "P", stages: ["new", "offer", "done"].map((id) => ({ id, name: id })) }],
  loyaltyLevels: ["silver", "gold"].map((id) => ({ id, name: id })),
  stampOffers: ["coffee", "cake"].map((id) => ({ id, name: id })),
  channels: channels.map((channel) => ({ ...channel, status: channel.id === revoked ? "revoked" : "active" })),
  clients: clients.map(({ merged, ...client }) => ({
    ...client,
    mergedIntoClientId: (merged && clients.find(({ id }) => id !== client.id)?.id) || null
  })),
  deals: deals.map((deal, index) => ({ ...deal, id: `${index}`, title: "D" })),
  segments: [{ id: "segment", name: "S", clientIds: members }],
  campaigns: [{ id: "spring", name: "Spring" }]
})

const passes = (filter: AudienceFilter, client: ModelClient, deals: ReadonlyArray<ModelDeal>): boolean => {
  const { cardNumber, balance, levelId, readyStampOfferIds } = client.loyalty ?? {
    cardNumber: null,
    levelId: null,
    balance: 0,
    readyStampOfferIds: []
  }
  if (filter.contactStatus !== "all" && client.status !== filter.contactStatus) return false
  if (!filter.requiredTags.every((tag) => client.tags.includes(tag))) return false
  if (filter.stageIds.length > 0) {
    const inOne = deals.some(
      (deal) =>
        deal.clientId === client.id &&
        deal.lifecycle === "active" &&
        deal.status === "open" &&
        filter.stageIds.includes(deal.stageId)
    )
    if (!inOne) return false
  }
  if (filter.loyaltyCardRequired && cardNumber === null) return false
  if (filter.loyaltyLevelIds.length > 0 && (levelId === null || !filter.loyaltyLevelIds.includes(levelId))) return false
  if (filter.minimumLoyaltyBalance !== null && balance < filter.minimumLoyaltyBalance) return false
  if (filter.readyStampOfferIds.length > 0) {
    if (!filter.readyStampOfferIds.some((offer) => readyStampOfferIds.includes(offer))) return false
  }
  return true
}

/** Returns the outcome of each candidate, in the order of the candidates. */
const outcomesOf = ({ clients, deals, members, revoked }: World, filter: AudienceFilter) => {
  const candidates = clients
    .filter(({ id }) => filter.segmentId === null || members.includes(id))
    .toSorted(
      (one, other) =>
        Date.parse(one.createdAt) - Date.parse(other.createdAt) ||
        Buffer.compare(Buffer.from(one.id), Buffer.from(other.id))
    )
  const taken = new Set<string>()
  return candidates.map((client): readonly [id: string, outcome: Exclusion | "eligible"] => {
    const pairs = client.addresses
      .filter(({ channelId }) => {
        const channel = channels.find(({ id }) => id === channelId)
        if (channel === undefined || channelId === revoked) return false
        return filter.providerTypes.length === 0 || filter.providerTypes.includes(channel.providerType)
      })
      .map(({ address, channelId }) => `${channelId} ${address}`)
    const because = (outcome: Exclusion) => [client.id, outcome] as const
    if (client.merged && clients.length > 1) return because("merged")
    if (!passes(filter, client, deals)) return because("filter_mismatch")
    if (!client.marketingConsent) return because("consent_not_granted")
    if (client.suppressed) return because("suppressed")
    if (pairs.length === 0) return because("channel_unavailable")
    if (pairs.some((pair) => taken.has(pair))) return because("duplicate")
    for (const pair of pairs) taken.add(pair)
    return [client.id, "eligible"]
  })
}

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a freeze of any audience", (it) => {
  it.effect("classifies every candidate as the contract says, and keeps the eligible ones in order", function* () {
    const server = yield* TestServer
    // Without it a plan could return the clients in order by chance.
    yield* server.sql`DROP INDEX clients_by_age`
    const seen = new Map<string, number>()
    for (const generated of fc.sample(world, 50)) {
      const { audience, freeze, recipients } = callsOf(server, yield* server.seed(fileOf(generated)))
      for (const wanted of fc.sample(filter, 6)) {
        const what = JSON.stringify({ generated, wanted })
        yield* freeze("spring", wanted)
        const outcomes = outcomesOf(generated, wanted)
        for (const [, outcome] of outcomes) seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
        const count = (wanted: string) => outcomes.filter(([, outcome]) => outcome === wanted).length
        const frozen = (yield* audience("spring")).audience
        assert.deepStrictEqual(
          frozen,
          {
            filter: wanted,
            candidateCount: outcomes.length,
            eligibleCount: count("eligible"),
            exclusions: Object.fromEntries(exclusions.map((exclusion) => [exclusion, count(exclusion)]))
          },
          what
        )
        const eligible = outcomes.flatMap(([id, outcome]) => (outcome === "eligible" ? [id] : []))
        assert.deepStrictEqual(yield* recipients("spring"), eligible, what)
      }
    }
    for (const outcome of ["eligible", ...exclusions]) assert.isAbove(seen.get(outcome) ?? 0, 0, outcome)
  })
})
