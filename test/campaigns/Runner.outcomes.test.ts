/** Results of calls to recipients (contract §9, with the rules of §8), without a database. */
import { assert, describe, it } from "@effect/vitest"
import { Option } from "effect"
import { AudienceId, CampaignId, ChannelId, ClientId, ProjectId } from "../../src/api/Ids.ts"
import type { Claim } from "../../src/campaigns/Runner/Claims.ts"
import { recipientResult } from "../../src/campaigns/Runner/Results.ts"
import { after, moves, open, states } from "../../src/campaigns/Runner/States.ts"
import type { Outcome } from "../../src/messaging/Outcomes.ts"

const base: Claim = {
  projectId: ProjectId.make("p"),
  campaignId: CampaignId.make("cmp"),
  audienceId: AudienceId.make("aud"),
  position: 0,
  clientId: ClientId.make("cli"),
  route: "primary",
  attempt: 1,
  inDoubt: false,
  hasFallback: false,
  sendAt: new Date(0),
  delayMillis: 0,
  channelId: ChannelId.make("channel"),
  providerType: "http",
  config: new Uint8Array(),
  address: "address",
  template: "Hello",
  displayName: "Ada",
  firstName: null,
  lastName: null,
  traceparent: ""
}

const accepted: Outcome = { _tag: "accepted", providerMessageId: "p" }
const refused: Outcome = { _tag: "refused", errorCode: "http_403" }
const busy: Outcome = { _tag: "postponed", errorCode: "http_503", retryAfter: Option.none() }
const http500: Outcome = { _tag: "unknown", errorCode: "http_500" }

/** Describes the result of a call: the next state, its route, the delay in seconds, and doubt. */
const resultOf = (claim: Partial<Claim>, outcome: Outcome, idempotent = true) => {
  const { delayMillis, inDoubt, nextRoute, on } = recipientResult({ ...base, ...claim }, idempotent, outcome)
  const pause = delayMillis === null ? "" : ` after ${delayMillis / 1000} s`
  return `${after(on)} on ${nextRoute}${pause}${inDoubt ? ", in doubt" : ""}`
}

const toTheFallback = { hasFallback: true }

describe("the state machine of recipients", () => {
  it("starts in open states and reaches every other state", () => {
    assert.isTrue(moves.every(({ from }) => open.some((state) => state === from)))
    assert.sameMembers([...new Set(moves.map(({ to }) => to))], [...states])
  })
})

describe("a campaign's call of a provider", () => {
  it("completes the recipient when it is accepted", () => {
    assert.strictEqual(resultOf({}, accepted), "sent on primary")
    assert.strictEqual(resultOf({ attempt: 2, inDoubt: true }, accepted), "sent on primary, in doubt")
  })

  it("moves the recipient to the fallback, if any, when it is refused", () => {
    assert.strictEqual(resultOf({}, refused), "failed on primary")
    assert.strictEqual(resultOf(toTheFallback, refused), "pending on fallback")
    assert.strictEqual(resultOf({ route: "fallback" }, refused), "failed on fallback")
  })

  it("is repeated up to five attempts when it was not processed, and then moves the recipient to the fallback", () => {
    assert.deepStrictEqual(
      [1, 2, 3, 4, 5].map((attempt) => resultOf({ attempt }, busy, false)),
      [
        "pending on primary after 1 s",
        "pending on primary after 5 s",
        "pending on primary after 30 s",
        "pending on primary after 120 s",
        "failed on primary"
      ]
    )
    assert.strictEqual(resultOf({ attempt: 5, ...toTheFallback }, busy), "pending on fallback")
  })

  it("is repeated after an unknown outcome only when the provider has idempotency keys", () => {
    assert.deepStrictEqual(
      [1, 4, 5].map((attempt) => resultOf({ attempt, ...toTheFallback }, http500)),
      [
        "pending on primary after 1 s, in doubt",
        "pending on primary after 120 s, in doubt",
        "unknown on primary, in doubt"
      ]
    )
    assert.strictEqual(resultOf(toTheFallback, http500, false), "unknown on primary, in doubt")
  })

  it("moves no recipient to the fallback after an unknown outcome", () => {
    const doubtful = { inDoubt: true, attempt: 2, ...toTheFallback }
    assert.strictEqual(resultOf(doubtful, refused), "failed on primary, in doubt")
    assert.strictEqual(resultOf({ ...doubtful, attempt: 5 }, busy), "unknown on primary, in doubt")
  })
})
