import { assert, describe, it } from "@effect/vitest"
import { byFailure } from "../../src/messaging/providers/Outcomes.ts"
import { outcomes } from "../../src/messaging/providers/Providers.ts"
import { maxAttempts, resultOf } from "../../src/messaging/RetrySchedule.ts"

const last = { number: maxAttempts, inDoubt: false, providerType: "telegram" } as const

describe("the last attempt", () => {
  for (const outcome of [outcomes.circuitOpen, outcomes.notCalled, byFailure("config_unreadable")]) {
    it(`of a campaign's message is repeated if the provider was not called: ${JSON.stringify(outcome)}`, () => {
      for (const number of [maxAttempts, maxAttempts + 3]) {
        const { delayMillis, on } = resultOf({ ...last, number, campaignId: "cmp" }, outcome)
        assert.deepStrictEqual([on, delayMillis], ["postponed", 120_000])
      }
      assert.strictEqual(resultOf({ ...last, campaignId: null }, outcome).on, "exhausted")
    })
  }

  it("of a campaign's message ends it if the provider has answered that it is busy", () => {
    const busy = { ...outcomes.circuitOpen, errorCode: "http_503" }
    assert.strictEqual(resultOf({ ...last, campaignId: "cmp" }, busy).on, "exhausted")
  })
})
