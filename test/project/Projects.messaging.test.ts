/** Conversations of applied files, and the addresses of clients. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { anHourLater, apply, faultsOf, type File, rowsOf, services, stateOf, textOf } from "./Projects.support.ts"

type Address = NonNullable<NonNullable<File["clients"]>[number]["addresses"]>[number]

const nothingIn = (target: string) => `names nothing in ${target}, here or in the project`

const channels = ["k", "l"].map((id) => ({ id, providerType: "sandbox" as const, displayName: id.toUpperCase() }))
const one = "0193f0cb-0000-4000-8000-00000000000a"
const two = "0193f0cb-0000-4000-8000-00000000000b"
const three = "0193f0cb-0000-4000-8000-00000000000c"

layer(services)("conversations of a project file", (it) => {
  const clients = [{ id: "c", displayName: "C" }]

  it.effect("are observed when they are created, and when their channel changes", () =>
    Effect.gen(function* () {
      const id = "observed"
      const after = Effect.fnUntraced(function* (
        members: { channelId?: string; address?: string; clientId?: null } = {}
      ) {
        yield* apply(id, { conversations: [{ id: one, channelId: "k", address: "a", ...members }] })
        return (yield* rowsOf("conversations", id))[0]
      })
      yield* apply(id, { channels, clients })
      const start = yield* anHourLater
      const created = yield* apply(id, { conversations: [{ id: one, clientId: "c", channelId: "k", address: "a" }] })
      assert.strictEqual(created.created["conversations"], 1)
      const fresh = { project_id: id, id: one, client_id: "c", channel_id: "k", address: "a", observed_at: start }
      assert.deepStrictEqual(yield* rowsOf("conversations", id), [fresh])
      const later = yield* anHourLater
      assert.deepStrictEqual(yield* after(), fresh)
      assert.deepStrictEqual(yield* after({ address: "b" }), { ...fresh, address: "b" })
      const moved = { ...fresh, channel_id: "l", address: "b", observed_at: later }
      assert.deepStrictEqual(yield* after({ channelId: "l", address: "b" }), moved)
      yield* anHourLater
      assert.deepStrictEqual(yield* after({ channelId: "l", address: "b", clientId: null }), {
        ...moved,
        client_id: null
      })
      assert.deepStrictEqual(yield* after({ channelId: "l", address: "b" }), { ...moved, client_id: null })
    })
  )

  it.effect("have ids in either letter case", () =>
    Effect.gen(function* () {
      const id = "case"
      const conversations = (...ids: ReadonlyArray<string>) => ids.map((id) => ({ id, channelId: "k", address: "a" }))
      const upper = one.toUpperCase()
      assert.strictEqual(
        (yield* apply(id, { channels, conversations: conversations(upper) })).created["conversations"],
        1
      )
      const again = yield* apply(id, { conversations: conversations(one, two) })
      assert.deepStrictEqual([again.unchanged["conversations"], again.created["conversations"]], [1, 1])
      assert.deepStrictEqual(
        (yield* rowsOf("conversations", id)).map((row) => row["id"]),
        [one, two]
      )
      assert.deepStrictEqual(
        yield* faultsOf(textOf(id, { conversations: conversations(three, upper, three.toUpperCase(), one, two) })),
        ["conversations/2/id: repeats conversations/0/id", "conversations/3/id: repeats conversations/1/id"]
      )
    })
  )

  it.effect("reference clients and channels of the file or the project only", () =>
    Effect.gen(function* () {
      const id = "leads"
      const conversations = [
        { id: one, clientId: "c", channelId: "k", address: "a" },
        { id: two, channelId: "x", address: "a" }
      ]
      const members = { clients, channels, conversations: conversations.slice(0, 1) }
      yield* apply("leads-other", members)
      assert.deepStrictEqual(yield* faultsOf(textOf(id, { conversations })), [
        `conversations/0/clientId: ${nothingIn("clients")}`,
        `conversations/0/channelId: ${nothingIn("channels")}`,
        `conversations/1/channelId: ${nothingIn("channels")}`
      ])
      assert.strictEqual((yield* apply(id, members)).created["conversations"], 1)
      yield* apply(id, { conversations: [{ id: one, clientId: null, channelId: "l", address: "b" }] })
      const [other] = yield* rowsOf("conversations", "leads-other")
      assert.deepInclude(other, { client_id: "c", channel_id: "k", address: "a" })
      assert.deepStrictEqual(yield* faultsOf(textOf(id, { conversations })), [
        `conversations/1/channelId: ${nothingIn("channels")}`
      ])
    })
  )

  it.effect("may have a revoked channel and an archived client", () =>
    Effect.gen(function* () {
      const { created } = yield* apply("resting", {
        channels: channels.map((channel) => ({ ...channel, status: "revoked" as const })),
        clients: [{ id: "c", displayName: "C", status: "archived", addresses: [{ channelId: "k", address: "a" }] }],
        conversations: [{ id: one, clientId: "c", channelId: "k", address: "a" }]
      })
      assert.strictEqual(created["conversations"], 1)
    })
  )
})

layer(services)("addresses of a project file", (it) => {
  const at = (...addresses: ReadonlyArray<string>): ReadonlyArray<Address> =>
    addresses.map((address) => ({ channelId: address.slice(0, 1), address: address.slice(1) }))
  const fileOf = (lists: Readonly<Record<string, ReadonlyArray<Address> | undefined>>) => ({
    clients: Object.entries(lists).map(([id, addresses]) => ({ id, displayName: "C", ...(addresses && { addresses }) }))
  })
  /** Returns the addresses of a project in order, as `client/0/channel+address`. */
  const addressesOf = Effect.fnUntraced(function* (projectId: string) {
    const rows = yield* rowsOf("client_addresses", projectId)
    return rows.map(
      ({ address, channel_id, client_id, position }) => `${client_id}/${position}/${channel_id}${address}`
    )
  })
  const versions = (id: string) => Effect.map(rowsOf("clients", id), (rows) => rows.map((row) => row["version"]))

  it.effect("of a client keep their order, are kept when omitted and replaced as a whole when given", () =>
    Effect.gen(function* () {
      const id = "addresses"
      yield* apply(id, { channels, ...fileOf({ a: at("k2", "l1", "k1"), b: at("k1"), c: undefined, d: [] }) })
      const first = ["a/0/k2", "a/1/l1", "a/2/k1", "b/0/k1"]
      assert.deepStrictEqual(yield* addressesOf(id), first)
      const sql = yield* SqlClient.SqlClient
      const rows = sql`SELECT xmin::text, * FROM client_addresses WHERE project_id = ${id} ORDER BY client_id, position`
      const before = yield* rows
      for (const same of [
        fileOf({ a: at("k2", "l1", "k1"), b: at("k1"), c: [], d: [] }),
        fileOf({ a: undefined, b: undefined, c: undefined, d: undefined })
      ]) {
        yield* anHourLater
        assert.strictEqual((yield* apply(id, same)).unchanged["clients"], 4)
      }
      assert.deepStrictEqual(yield* rows, before)
      assert.deepStrictEqual(yield* versions(id), [1, 1, 1, 1])

      const later = yield* anHourLater
      const { unchanged, updated } = yield* apply(
        id,
        fileOf({ a: at("k1", "k2", "l1"), b: undefined, c: at("l9"), d: [] })
      )
      assert.deepStrictEqual([updated["clients"], unchanged["clients"]], [2, 2])
      assert.deepStrictEqual(yield* addressesOf(id), ["a/0/k1", "a/1/k2", "a/2/l1", "b/0/k1", "c/0/l9"])
      assert.deepStrictEqual(yield* versions(id), [2, 1, 2, 1])
      assert.deepInclude((yield* rowsOf("clients", id))[0], { updated_at: later })

      yield* apply(id, fileOf({ a: [], b: at("k1", "l1") }))
      assert.deepStrictEqual(yield* addressesOf(id), ["b/0/k1", "b/1/l1", "c/0/l9"])
      assert.deepStrictEqual(yield* versions(id), [3, 2, 2, 1])
    })
  )

  it.effect("may be shared by clients and move between them", () =>
    Effect.gen(function* () {
      const id = "shared"
      yield* apply(id, { channels, ...fileOf({ a: at("k1", "l1"), b: at("k1") }) })
      const { updated } = yield* apply(id, fileOf({ a: at("k1"), b: at("l1", "k1") }))
      assert.strictEqual(updated["clients"], 2)
      assert.deepStrictEqual(yield* addressesOf(id), ["a/0/k1", "b/0/l1", "b/1/k1"])
    })
  )

  it.effect("of one client are distinct", () =>
    Effect.gen(function* () {
      const id = "different"
      yield* apply(id, { channels, ...fileOf({ a: at("k1") }) })
      const before = yield* stateOf(id)
      const clients = fileOf({ a: at("k1", "l1", "k1", "k1"), b: at("k1", "k2", "l1", "l2", "k2"), c: at("kX", "kx") })
      assert.deepStrictEqual(yield* faultsOf(textOf(id, clients)), [
        "clients/0/addresses/2: repeats clients/0/addresses/0",
        "clients/0/addresses/3: repeats clients/0/addresses/0",
        "clients/1/addresses/4: repeats clients/1/addresses/1"
      ])
      // Pairs of channel and address whose concatenation is ambiguous stay distinct.
      const tricky = ["k", 'k"', 'k","l'].map((id) => ({ id, providerType: "sandbox" as const, displayName: "C" }))
      const near = [
        { channelId: 'k","l', address: "1" },
        { channelId: "k", address: 'l","1' },
        { channelId: 'k"', address: ',"l","1' }
      ]
      yield* apply("near", { channels: tricky, ...fileOf({ a: near }) })
      assert.deepStrictEqual(yield* stateOf(id), before)
    })
  )

  it.effect("reference channels of the file or the project only", () =>
    Effect.gen(function* () {
      const id = "on"
      yield* apply("on-other", { channels, ...fileOf({ a: at("k1") }) })
      const clients = fileOf({ a: at("k1", "x1"), b: at("l1") })
      assert.deepStrictEqual(yield* faultsOf(textOf(id, clients)), [
        `clients/0/addresses/0/channelId: ${nothingIn("channels")}`,
        `clients/0/addresses/1/channelId: ${nothingIn("channels")}`,
        `clients/1/addresses/0/channelId: ${nothingIn("channels")}`
      ])
      yield* apply(id, { channels: channels.slice(0, 1), ...fileOf({ a: at("k2") }) })
      assert.deepStrictEqual(yield* faultsOf(textOf(id, clients)), [
        `clients/0/addresses/1/channelId: ${nothingIn("channels")}`,
        `clients/1/addresses/0/channelId: ${nothingIn("channels")}`
      ])
      yield* apply(id, fileOf({ a: [] }))
      assert.deepStrictEqual(yield* addressesOf("on-other"), ["a/0/k1"])
    })
  )
})
