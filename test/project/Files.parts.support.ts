/** Arbitrary parts of project files. */
import * as fc from "fast-check"

export const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: null })
export const text = (maxLength: number) =>
  fc
    .string({ unit: "binary", minLength: 1, maxLength })
    .filter((value) => value.isWellFormed() && !value.includes("\u0000"))
/** An arbitrary name, which shows something. */
export const named = text(159).map((value) => `${value}x`)
/** An arbitrary id, mostly one that other files use, too. */
const visible = fc.stringMatching(/^[\x21-\x7E]{1,160}$/)

export const id = fc.oneof(visible, { weight: 3, arbitrary: fc.constantFrom("a", "b", "c", "d") })
export const byId = { selector: ({ id }: { readonly id: string }) => id, maxLength: 6 }

/** Generates a record; all members except the required ones may be absent. */
export const record = <T, K extends keyof T>(members: { [P in keyof T]: fc.Arbitrary<T[P]> }, requiredKeys: Array<K>) =>
  fc.record(members, { requiredKeys })

export const segmentsOf = (clientIds: ReadonlyArray<string>) =>
  fc.uniqueArray(
    record(
      {
        id,
        name: named,
        description: maybe(text(1000)),
        clientIds: fc.shuffledSubarray([...clientIds])
      },
      ["id", "name", "clientIds"]
    ),
    byId
  )

export const templates = fc.uniqueArray(
  fc.record({ id, version: fc.integer({ min: 1, max: 3 }), name: named, body: text(4096) }),
  { selector: ({ id, version }) => JSON.stringify([id, version]), maxLength: 6 }
)

const name = fc.oneof(text(100), fc.constantFrom("a", "b", "__proto__"))
const entityType = fc.constantFrom("contact", "organization", "lead", "deal", "task", "activity", "note")

const fields = fc.array(fc.tuple(name, fc.jsonValue({ maxDepth: 3 })), { maxLength: 4 }).map((pairs) =>
  // Text that the database can't store is refused, and tested separately.
  Object.fromEntries(pairs.filter(([, value]) => !/\\\\u(0000|d[89a-f])/i.test(JSON.stringify(value))))
)

const mapping = <Field extends string>(...ownFields: ReadonlyArray<Field>) =>
  fc
    .array(fc.tuple(name, fc.constantFrom<Field | "restricted">("restricted", ...ownFields)), { maxLength: 3 })
    .map((pairs) => Object.fromEntries(pairs))

const importProfile = fc.record({
  version: fc.integer({ min: 1, max: 2 }),
  mappings: record({ contact: mapping("displayName", "email", "tags"), note: mapping("body") }, [])
})

export const installations = fc.uniqueArray(
  record(
    {
      id,
      name: named,
      status: fc.constantFrom("active" as const, "disabled" as const),
      importProfile: maybe(importProfile),
      stagedRecords: fc.array(fc.record({ entityType, externalId: id, fields }), { maxLength: 4 })
    },
    ["id", "name"]
  ),
  { ...byId, maxLength: 3 }
)

interface Channel {
  readonly id: string
}

/** Arbitrary channels. Most have their config, as a new channel without one is refused. */
export const channels = fc.uniqueArray(
  fc
    .record({
      id: fc.oneof({ weight: 4, arbitrary: fc.constantFrom("k", "l", "m") }, visible),
      status: fc.constantFrom({}, { status: "active" as const }, { status: "revoked" as const }),
      displayName: named,
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

/** Generates addresses on these channels, without repeats. */
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

/** Generates conversations on these channels, with or without clients of the file. */
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
