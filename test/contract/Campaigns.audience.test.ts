/** Freezes of an audience: what each member of the filter selects, why clients are excluded, and their order (contract §9). */
import { assert, layer } from "../support/Vitest.ts"
import { exclusions } from "../../src/api/campaigns/Audience.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { callsOf } from "./Campaigns.support.ts"

const channels: Parts["channels"] = [
  { id: "k", providerType: "sandbox", displayName: "K" },
  { id: "l", providerType: "sandbox", displayName: "L" },
  { id: "m", providerType: "telegram", displayName: "M", config: { token: "1:a" } },
  { id: "n", providerType: "sandbox", displayName: "N", status: "revoked" }
]

/** A client that is eligible: it consents and has an address of its own. */
const client = (id: string, members: object = {}) => ({
  id,
  displayName: id,
  marketingConsent: true,
  createdAt: "2026-01-01T00:00:00.000Z",
  addresses: [{ channelId: "k", address: id }],
  ...members
})
const address = (channelId: string, address: string) => ({ channelId, address })
const loyalty = (
  cardNumber: string | null,
  levelId: string,
  balance: number,
  ...readyStampOfferIds: Array<string>
) => ({
  loyalty: { cardNumber, levelId, balance, readyStampOfferIds }
})
const deal = (id: string, clientId: string, stageId: string, members: object = {}) => ({
  id,
  title: "D",
  clientId,
  stageId,
  ...members
})
const campaigns = [{ id: "spring", name: "Spring" }]

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a freeze of an audience", (it) => {
  it.effect("selects the clients that pass each member of the filter", function* () {
    const { seed, ...server } = yield* TestServer
    const seeded = yield* seed({
      channels,
      campaigns,
      project: { defaultPipelineId: "p" },
      pipelines: [{ id: "p", name: "P", stages: ["new", "offer"].map((id) => ({ id, name: id })) }],
      loyaltyLevels: ["silver", "gold"].map((id) => ({ id, name: id })),
      stampOffers: ["coffee", "cake"].map((id) => ({ id, name: id })),
      clients: [
        client("archived", { status: "archived" }),
        client("card", loyalty("card", "silver", 5, "coffee")),
        client("gold", loyalty(null, "gold", 10, "cake", "coffee")),
        client("offered"),
        client("tagged", { tags: ["red", "blue"], addresses: [address("m", "1")] }),
        client("won", { tags: ["red"] })
      ],
      deals: [
        deal("1", "tagged", "new"),
        deal("2", "offered", "offer"),
        deal("3", "won", "new", { status: "won" }),
        deal("4", "won", "offer", { lifecycle: "archived" })
      ],
      segments: [{ id: "segment", name: "S", clientIds: ["gold", "archived"] }]
    })
    const { audience, freeze, recipients } = callsOf({ seed, ...server }, seeded)
    const all = "archived card gold offered tagged won"
    for (const [filter, expected] of [
      [{}, all],
      [{ contactStatus: "active" }, "card gold offered tagged won"],
      [{ contactStatus: "archived" }, "archived"],
      [{ segmentId: "segment" }, "archived gold"],
      [{ segmentId: "segment", contactStatus: "active" }, "gold"],
      [{ providerTypes: ["telegram"] }, "tagged"],
      [{ providerTypes: ["telegram", "sandbox"] }, all],
      [{ providerTypes: ["none"] }, ""],
      [{ requiredTags: ["red"] }, "tagged won"],
      [{ requiredTags: ["red", "blue", "red"] }, "tagged"],
      [{ requiredTags: ["none"] }, ""],
      [{ stageIds: ["new"] }, "tagged"],
      [{ stageIds: ["none", "offer", "new"] }, "offered tagged"],
      [{ stageIds: ["none"] }, ""],
      [{ loyaltyCardRequired: true }, "card"],
      [{ loyaltyLevelIds: ["gold"] }, "gold"],
      [{ loyaltyLevelIds: ["gold", "silver"] }, "card gold"],
      [{ loyaltyLevelIds: ["none"] }, ""],
      [{ minimumLoyaltyBalance: 0 }, all],
      [{ minimumLoyaltyBalance: 5 }, "card gold"],
      [{ minimumLoyaltyBalance: 6 }, "gold"],
      [{ readyStampOfferIds: ["coffee"] }, "card gold"],
      [{ readyStampOfferIds: ["none", "cake"] }, "gold"],
      [{ readyStampOfferIds: ["none"] }, ""],
      [{ loyaltyLevelIds: ["gold"], requiredTags: ["red"] }, ""]
    ] as const) {
      const what = JSON.stringify(filter)
      yield* freeze("spring", filter)
      assert.strictEqual((yield* recipients("spring")).join(" "), expected, what)
      const { candidateCount, eligibleCount } = (yield* audience("spring")).audience ?? assert.fail(what)
      const eligible = expected === "" ? 0 : expected.split(" ").length
      assert.deepStrictEqual([candidateCount, eligibleCount], ["segmentId" in filter ? 2 : 6, eligible], what)
    }
  })

  it.effect("excludes each other candidate for the first reason, and a duplicate takes no address", function* () {
    const server = yield* TestServer
    const nowhere = { suppressed: true, addresses: [] }
    const red = { tags: ["red"] }
    const seeded = yield* server.seed({
      channels,
      campaigns,
      clients: [
        client("1", { ...nowhere, marketingConsent: false, mergedIntoClientId: "6" }),
        client("2", { ...nowhere, marketingConsent: false }),
        client("3", { ...nowhere, ...red, marketingConsent: false }),
        client("4", { ...nowhere, ...red }),
        client("5", { ...red, addresses: [address("n", "1")] }),
        client("6", { ...red, addresses: [address("k", "1"), address("l", "2")] }),
        client("7", { ...red, addresses: [address("l", "2"), address("m", "3")] }),
        client("8", { ...red, addresses: [address("m", "3"), address("k", "2")] })
      ]
    })
    const { audience, freeze, recipients } = callsOf(server, seeded)
    yield* freeze("spring", { requiredTags: ["red"] })
    const frozen = (yield* audience("spring")).audience ?? assert.fail()
    assert.deepStrictEqual([frozen.candidateCount, frozen.eligibleCount], [8, 2])
    assert.deepStrictEqual({ ...frozen.exclusions }, Object.fromEntries(exclusions.map((exclusion) => [exclusion, 1])))
    assert.deepStrictEqual(frozen.filter.requiredTags, ["red"])
    assert.deepStrictEqual(yield* recipients("spring"), ["6", "8"])
  })

  it.effect("keeps the clients by age, and those of one age by the bytes of their ids", function* () {
    const server = yield* TestServer
    // Without it a plan could return the clients in order by chance.
    yield* server.sql`DROP INDEX clients_by_age`
    const ids = ["!", "'", "10", "9", "A", "B", "_", "a", "b", "~"]
    const seeded = yield* server.seed({
      channels,
      campaigns,
      clients: [
        client("0", { createdAt: "2026-01-01T00:00:00.001Z" }),
        ...["b", "~", "A", "9", "!", "a", "10", "B", "_", "'"].map((id) => client(id))
      ]
    })
    const { freeze, recipients } = callsOf(server, seeded)
    yield* freeze("spring")
    assert.deepStrictEqual(yield* recipients("spring"), [...ids, "0"])
  })
})
