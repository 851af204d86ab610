/** Stored configs: sealed for one channel, and opened only for it. */
import { assert, it } from "@effect/vitest"
import { Effect, Exit, Redacted } from "effect"
import fc from "fast-check"
import { ChannelId, ProjectId } from "../../../../src/api/schema/Ids.ts"
import { providerTypes } from "../../../../src/api/messaging/Messaging.ts"
import type { ChannelConfig } from "../../../../src/messaging/providers/Connectors.ts"
import { openConfig, sealConfig } from "../../../../src/messaging/providers/SealedConfigs.ts"
import { SecretBox } from "../../../../src/platform/secrets/SecretBox.ts"
import { secretBox } from "../../../support/SecretBox.ts"

const boxOf = (byte: number) =>
  Effect.runSync(Effect.provide(Effect.service(SecretBox), secretBox(Buffer.alloc(32, byte).toString("base64"))))
const box = boxOf(1)

const url = fc.webUrl({ withQueryParameters: true })
const secret = fc.stringMatching(/^[A-Za-z0-9]{1,80}$/).map((text) => Redacted.make(text))
const channel: fc.Arbitrary<ChannelConfig> = fc.oneof(
  fc.record({ providerType: fc.constant("http" as const), config: fc.record({ url, signingSecret: secret }) }),
  fc.record({
    providerType: fc.constant("telegram" as const),
    config: fc.record({ token: secret, apiBaseUrl: url }, { requiredKeys: ["token"] })
  }),
  fc.record({ providerType: fc.constant("sandbox" as const), config: fc.constant({}) })
)
const projectId = fc.string({ minLength: 1, maxLength: 160 }).map((id) => ProjectId.make(id))
const channelId = fc.string({ minLength: 1, maxLength: 160 }).map((id) => ChannelId.make(id))

it("a sealed config opens only for its channel, its provider and its key", () => {
  fc.assert(
    fc.property(
      fc.tuple(projectId, channelId),
      fc.tuple(projectId, channelId),
      channel,
      fc.constantFrom(...providerTypes),
      (own, other, channel, provider) => {
        const sealed = Effect.runSync(sealConfig(box, ...own, channel))
        const open = (as: typeof own, provider = channel.providerType, by = box) =>
          Effect.runSyncExit(openConfig(by, ...as, provider, sealed))
        assert.deepStrictEqual(open(own), Exit.succeed(channel))
        const wrong = [
          open(own, channel.providerType, boxOf(2)),
          ...(JSON.stringify(own) === JSON.stringify(other) ? [] : [open(other)]),
          // The sandbox permits no member; the others lack a required one.
          ...(provider === channel.providerType ? [] : [open(own, provider)])
        ]
        for (const exit of wrong) {
          assert.isTrue(Exit.isFailure(exit))
          assert.match(String(exit), /SecretUnreadable/)
        }
      }
    ),
    { numRuns: 50 }
  )
})
