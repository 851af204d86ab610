/** The messaging part of any project file. */
import * as fc from "fast-check"
import { byId, record, text } from "./Arbitraries.support.ts"

interface Channel {
  readonly id: string
}

/** Most have their config: a new one without it is refused. */
export const channels = fc.uniqueArray(
  fc
    .record({
      id: fc.oneof({ weight: 4, arbitrary: fc.constantFrom("k", "l", "m") }, text(160)),
      status: fc.constantFrom({}, { status: "active" as const }, { status: "revoked" as const }),
      displayName: text(160),
      isGiven: fc.nat(9).map((number) => number > 0),
      kind: fc.oneof(
        fc.record({
          providerType: fc.constant("http" as const),
          config: fc.record({ url: fc.webUrl(), signingSecret: fc.constantFrom("whsec_AA==", "AB-_") })
        }),
        fc.record({
          providerType: fc.constant("telegram" as const),
          config: record({ token: fc.constantFrom("1:a", "2:b"), apiBaseUrl: fc.webUrl() }, ["token"])
        }),
        fc.record({ providerType: fc.constant("sandbox" as const), config: fc.constant({}) })
      )
    })
    .map(({ displayName, id, isGiven, kind, status }) => {
      const { config: _, ...silent } = kind
      return { id, displayName, ...status, ...(isGiven ? kind : silent) }
    }),
  { ...byId, maxLength: 4 }
)

const conversationIds = ["0193f0cb-0000-4000-8000-00000000000", "0193F0CB-0000-4000-8000-00000000000"].flatMap((id) =>
  ["a", "B", "c"].map((last) => `${id}${last}`)
)

/** Addresses on these channels, without repeats. */
export const addressesOn = (channels: ReadonlyArray<Channel>) =>
  channels.length === 0
    ? fc.constant([])
    : fc.uniqueArray(
        fc.record({
          channelId: fc.constantFrom(...channels.map(({ id }) => id)),
          address: fc.oneof(text(500), fc.constantFrom("1", "2"))
        }),
        { selector: ({ address, channelId }) => JSON.stringify([channelId, address]), maxLength: 4 }
      )

/** Conversations on these channels, with clients of the file or without. */
export const conversationsOn = (channels: ReadonlyArray<Channel>, clientId: fc.Arbitrary<string | null>) =>
  channels.length === 0
    ? fc.constant([])
    : fc.uniqueArray(
        record(
          {
            id: fc.constantFrom(...conversationIds),
            clientId,
            channelId: fc.constantFrom(...channels.map(({ id }) => id)),
            address: text(500)
          },
          ["id", "channelId", "address"]
        ),
        { selector: ({ id }) => id.toLowerCase() }
      )
