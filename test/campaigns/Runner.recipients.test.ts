/** The route of a campaign to each recipient, and the recipients that it skips (contract §9). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { open } from "../contract/Campaigns.support.ts"
import { status } from "../integrations/deliveries/Deliveries.support.ts"
import { TestServer } from "../support/TestServer.ts"
import { addressOf, campaignOf, clientId, httpChannel, provider, sendOf } from "./Runner.support.ts"
import { until, untilRows } from "../support/Waiting.ts"

const hour = 3_600_000

const clientOf = (index: number) => ({ id: clientId(index), displayName: `Client ${index}` })
const recipientsOf = ({ hits }: Effect.Success<ReturnType<typeof provider>>) =>
  hits.map((hit) => sendOf(hit).recipient).sort()
const states = (recipients: ReadonlyArray<{ readonly status: string; readonly route: string }>) =>
  recipients.map(({ route, status }) => `${status} ${route}`)

layer(TestServer.layer(), { excludeTestServices: true })("a campaign", (it) => {
  it.effect(
    "skips clients that withdrew consent or were suppressed, archived or merged after the freeze",
    function* () {
      const server = yield* TestServer
      const primary = yield* provider()
      const { apply, begin, recipients, settled } = yield* campaignOf(server, {
        recipients: 7,
        primary: primary.url,
        status: "scheduled",
        scheduledIn: hour
      })
      yield* apply({
        clients: [
          { ...clientOf(0), marketingConsent: false },
          { ...clientOf(1), suppressed: true },
          { ...clientOf(2), status: "archived" },
          { ...clientOf(3), mergedIntoClientId: clientId(4) }
        ]
      })
      yield* begin
      yield* settled("completed")
      assert.deepStrictEqual(recipientsOf(primary), [4, 5, 6].map(addressOf))
      assert.deepStrictEqual(
        (yield* recipients).map(({ status }) => status),
        [...Array<string>(4).fill("skipped"), ...Array<string>(3).fill("sent")]
      )
    }
  )

  it.effect("skips such clients while it runs, and leaves unknown outcomes unknown", function* () {
    const server = yield* TestServer
    // The outcome of the first call is unknown, so the call would be repeated.
    let answer = () => {}
    const primary = yield* provider((hit, n) => void (answer = () => status(500)(hit, n)))
    const { apply, command, projectId, recipients, settled, sql } = yield* campaignOf(server, {
      recipients: 2,
      primary: primary.url,
      sendsPerMinute: 1
    })
    yield* until(() => primary.hits.length === 1)
    yield* command("pause")
    answer()
    yield* untilRows(
      Effect.map(recipients, (rows) => rows.filter(({ inDoubt }) => inDoubt)),
      (rows) => rows.length > 0
    )
    yield* apply({ clients: [0, 1].map((index) => ({ ...clientOf(index), suppressed: true })) })
    yield* Effect.orDie(sql`UPDATE campaigns SET next_send_at = NULL WHERE project_id = ${projectId}`)
    yield* command("resume")
    yield* settled("completed")
    assert.deepStrictEqual(states(yield* recipients), ["unknown primary", "skipped primary"])
    assert.strictEqual(primary.hits.length, 1)
  })

  it.effect("sends to clients that were archived before the freeze, and not to those archived after it", function* () {
    const archived = { status: "archived" as const }
    const active = { status: "active" as const }
    const reachable = (id: string, more: object) => ({
      id,
      displayName: id,
      marketingConsent: true,
      addresses: [{ channelId: "chat", address: id }],
      ...more
    })
    const { apply, done, projectId, read, ready, server } = yield* open({
      clients: [reachable("archived", archived), reachable("again", archived), reachable("since", active)]
    })
    yield* ready("spring")
    yield* apply({ clients: [{ id: "again", displayName: "again", ...active }] })
    yield* apply({ clients: ["again", "since"].map((id) => ({ id, displayName: id, ...archived })) })
    yield* done("spring", { operation: "schedule", scheduledForLocal: null, sendsPerMinute: 60_000 })
    yield* untilRows(read("spring"), ({ status }) => status === "completed")
    const rows = yield* Effect.orDie(server.sql<{ readonly id: string; readonly status: string }>`
      SELECT client_id AS id, status FROM campaign_recipients WHERE project_id = ${projectId}`)
    assert.deepStrictEqual(Object.fromEntries(rows.map(({ id, status }) => [id, status])), {
      archived: "sent",
      again: "skipped",
      since: "skipped"
    })
  })

  it.effect("uses the route for which a recipient has an address, and fails the recipient without one", function* () {
    const server = yield* TestServer
    const primary = yield* provider()
    const fallback = yield* provider()
    const { apply, begin, recipients, settled } = yield* campaignOf(server, {
      recipients: 4,
      primary: primary.url,
      fallback: fallback.url,
      status: "scheduled",
      scheduledIn: hour
    })
    const on = (index: number, ...channels: ReadonlyArray<string>) => ({
      ...clientOf(index),
      addresses: channels.map((channelId) => ({ channelId, address: addressOf(index) }))
    })
    yield* apply({ clients: [on(0, "primary"), on(1, "fallback"), on(2)] })
    yield* begin
    yield* settled("completed")
    assert.deepStrictEqual(
      [recipientsOf(primary), recipientsOf(fallback)],
      [[addressOf(0), addressOf(3)], [addressOf(1)]]
    )
    assert.deepStrictEqual(states(yield* recipients), [
      "sent primary",
      "sent fallback",
      "failed primary",
      "sent primary"
    ])
  })

  it.effect(
    "uses the fallback when the primary channel is revoked, and fails the recipient without a fallback",
    function* () {
      const server = yield* TestServer
      const primary = yield* provider()
      const fallback = yield* provider()
      for (const second of [fallback.url, undefined]) {
        const { apply, begin, recipients, settled } = yield* campaignOf(server, {
          recipients: 3,
          primary: primary.url,
          ...(second === undefined ? {} : { fallback: second }),
          status: "scheduled",
          scheduledIn: hour
        })
        yield* apply({ channels: [{ ...httpChannel("primary", primary.url), status: "revoked" }] })
        yield* begin
        yield* settled("completed")
        const outcome = second === undefined ? "failed primary" : "sent fallback"
        assert.deepStrictEqual(states(yield* recipients), Array<string>(3).fill(outcome))
      }
      assert.deepStrictEqual([primary.hits.length, fallback.hits.length], [0, 3])
    }
  )
})
