/** Freezes of random projects with random filters, against the model of Campaigns.model.support.ts (contract §9). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { exclusions } from "../../src/api/campaigns/Audience.ts"
import { TestServer } from "../support/TestServer.ts"
import { fileOf, filter, outcomesOf, world } from "./Campaigns.model.support.ts"
import { callsOf } from "./Campaigns.support.ts"

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a freeze of any audience", (it) => {
  it.effect("classifies every candidate as the contract says, and keeps the eligible ones in order", () =>
    Effect.gen(function* () {
      const server = yield* TestServer
      // Without it no plan brings the clients in their order by itself.
      yield* server.sql`DROP INDEX clients_by_age`
      const seen = new Map<string, number>()
      for (const generated of fc.sample(world, 100)) {
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
              exclusions: {
                consent_not_granted: count("consent_not_granted"),
                suppressed: count("suppressed"),
                merged: count("merged"),
                filter_mismatch: count("filter_mismatch"),
                channel_unavailable: count("channel_unavailable"),
                duplicate: count("duplicate")
              }
            },
            what
          )
          const eligible = outcomes.flatMap(([id, outcome]) => (outcome === "eligible" ? [id] : []))
          assert.deepStrictEqual(yield* recipients("spring"), eligible, what)
        }
      }
      for (const outcome of ["eligible", ...exclusions]) assert.isAbove(seen.get(outcome) ?? 0, 0, outcome)
    })
  )
})
