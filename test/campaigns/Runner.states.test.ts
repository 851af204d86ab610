/**
 * The states of recipients and their messages, by the statements that release, record, take over and collect them: after each pair of
 * outcomes and each change that follows the freeze, on each kind of plan, compared with a model of contract §9 with the rules of §8.
 */
import { assert, it, layer } from "../support/Vitest.ts"
import { Effect, Struct } from "effect"
import { httpChannel, telegramChannel } from "../contract/Messages.support.ts"
import { newKey } from "../contract/Requests.ts"
import { receiptOf } from "../support/ContractAnswers.ts"
import type { MessageStatus } from "../../src/api/messaging/Messaging.ts"
import { startsOf, stepOf } from "../../src/api/schema/States.ts"
import { recipientStates } from "../../src/api/campaigns/Campaign.ts"
import { recipients } from "../../src/campaigns/Recipients.ts"
import type { Claim } from "../../src/messaging/Claim.ts"
import { byFailure } from "../../src/messaging/providers/Connector.ts"
import { outcomes } from "../../src/messaging/providers/Connectors.ts"
import { TestServer } from "../support/TestServer.ts"
import { accepted, lease, nowhere, postponed, refused, scene, stateOf, unclear } from "./Runner.scene.support.ts"
import { addressOf, clientId } from "./Runner.support.ts"

const hour = 3_600_000

/** Number of attempts of a message (contract §8). */
const maxAttempts = 5

it("the state machine of recipients starts in open states, or in one that operators retry, and reaches every state", () => {
  const moves = Struct.keys(recipients.moves)
  assert.sameMembers(
    [...new Set(moves.flatMap((move) => startsOf(recipients, move)))],
    [...recipientStates.open, "failed"]
  )
  assert.sameMembers([...new Set(moves.map((move) => stepOf(recipients, move).to))], [...recipients.states])
})

type Route = "primary" | "fallback"
/** `elsewhere`: a provider like `http`, at another URL. */
type Provider = "http" | "telegram" | "elsewhere"
const routes: ReadonlyArray<Route> = ["primary", "fallback"]
const channelOf = {
  http: httpChannel,
  telegram: telegramChannel,
  elsewhere: (id: string, url: string) => httpChannel(id, `${url}/elsewhere`)
}

/** The ends of an attempt. `uncalled`: the provider was not called; `lost`: no result was recorded before the lease ended. */
const endings = ["accepted", "refused", "postponed", "unclear", "uncalled", "lost"] as const
type Ending = (typeof endings)[number]

const withoutCall = [outcomes.circuitOpen, outcomes.notCalled, byFailure("config_unreadable")]
const outcomesOf = (turn: number) => ({
  accepted,
  refused,
  postponed,
  unclear,
  uncalled: withoutCall[turn % 3] ?? outcomes.circuitOpen
})

/** Changes of a client by a project file or, at last, by an erase, and the routes that reach it from then on; undefined: it is skipped. */
const changes = {
  nothing: [{}, routes],
  "withdrew consent": [{ marketingConsent: false }, undefined],
  "was suppressed": [{ suppressed: true }, undefined],
  "was archived": [{ status: "archived" }, undefined],
  "was merged": [{ mergedIntoClientId: clientId(0) }, undefined],
  "was erased": [{}, undefined],
  "lost its addresses": [{}, []],
  "lost its fallback address": [{}, ["primary"]],
  "lost its primary address": [{}, ["fallback"]]
} as const

/** What happens to a recipient: the end of its first attempt and of each other one, and a change before or during the first. */
interface Script {
  readonly ends: readonly [Ending, Ending]
  readonly change: keyof typeof changes
  readonly isEarly: boolean
}

const scripts = endings
  .flatMap((first) => endings.map((second): Script => ({ ends: [first, second], change: "nothing", isEarly: true })))
  .concat(
    Struct.keys(changes).flatMap((change): ReadonlyArray<Script> => [
      { ends: ["accepted", "accepted"], change, isEarly: true },
      ...endings.map((first) => ({ ends: [first, "postponed"] as const, change, isEarly: false }))
    ])
  )

/** A recipient in the model. */
interface Known extends Script {
  readonly status: (typeof recipients.states)[number]
  readonly route: Route
  readonly attempts: number
  /** How many of the attempts ended without a call. */
  readonly uncalled: number
  readonly inDoubt: boolean
  /** The provider of the last attempt. */
  readonly calledBy: Provider
  /** The message on each route. */
  readonly messages: Readonly<Partial<Record<Route, MessageStatus>>>
}

/** Returns the recipient in another status, with that of the message on its route. */
const moved = (known: Known, status: Known["status"], message: MessageStatus, more: Partial<Known> = {}): Known => ({
  ...known,
  status,
  messages: { ...known.messages, [known.route]: message },
  ...more
})

/** Returns the recipient after a release, by the providers of the routes that reach it; undefined: it is skipped. */
const released = (known: Known, providers: Readonly<Record<Route, Provider | undefined>> | undefined): Known => {
  const { inDoubt, messages, route } = known
  if (known.status !== "pending") return known
  const next = routes.find((kind) => {
    if (inDoubt) return kind === route && providers?.[kind] === known.calledBy && known.calledBy !== "telegram"
    return providers?.[kind] !== undefined && (route === "primary" || kind === "fallback")
  })
  const left = messages[route] === undefined ? known : moved(known, "pending", inDoubt ? "unknown" : "failed")
  if (next === undefined) {
    return { ...left, status: inDoubt ? "unknown" : providers === undefined ? "skipped" : "failed" }
  }
  const calledBy = providers?.[next] ?? known.calledBy
  return next === route
    ? moved(known, "sending", messages[route] ?? "pending", { calledBy, attempts: known.attempts + 1 })
    : moved({ ...left, route: next }, "sending", "pending", { calledBy, attempts: 1, uncalled: 0 })
}

/** Returns the recipient after an attempt. */
const ended = (known: Known, ending: Ending, hasFallback: boolean): Known => {
  const { attempts, calledBy, inDoubt, route, uncalled } = known
  if (known.status !== "sending") return known
  const isLast = attempts - uncalled >= maxAttempts
  const failed =
    hasFallback && route === "primary" && !inDoubt
      ? moved(known, "pending", "failed", { route: "fallback", attempts: 0, uncalled: 0 })
      : moved(known, "failed", "failed")
  switch (ending) {
    case "accepted":
      return moved(known, "sent", "sent")
    case "refused":
      return inDoubt ? moved(known, "unknown", "unknown") : failed
    case "postponed":
      if (!isLast) return moved(known, "pending", "retrying")
      return inDoubt ? moved(known, "unknown", "unknown") : failed
    case "uncalled":
      return moved(known, "pending", "retrying", { uncalled: uncalled + 1 })
    case "unclear":
    case "lost":
      return moved(known, calledBy !== "telegram" && !isLast ? "pending" : "unknown", "unknown", { inDoubt: true })
  }
}

const unsent = { status: "pending", route: "primary", attempts: 0, uncalled: 0, inDoubt: false, messages: {} } as const

/** Number of turns: more than a message has attempts. Each attempt of the last turn is accepted. */
const turns = 7

const other = { http: "telegram", telegram: "http", elsewhere: "http" } as const

/** Changes of the primary channel: its provider afterwards, and whether that is before the first attempts. */
const channelChanges: ReadonlyArray<readonly [string, after: (type: Provider) => Provider | undefined, boolean]> = [
  ["stays as it is", (type) => type, true],
  ["is revoked before the first attempts", () => undefined, true],
  ["is revoked during the first attempts", () => undefined, false],
  ["gets another URL during the first attempts", (type) => (type === "http" ? "elsewhere" : type), false],
  ["gets another provider during the first attempts", (type) => other[type], false]
]
const plans = ([{}, { fallback: nowhere }] as const).flatMap((routes) =>
  (["http", "telegram"] as const).map((primaryType) => ({ ...routes, primaryType, recipients: scripts.length }))
)

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("recipients", (it) => {
  it.effect("keep the attempts with a call and the newest of the others, of which none counts", function* () {
    const { claimed, projectId, record, recipientState, sql } = yield* scene()
    const numbers = Effect.map(
      Effect.orDie(sql<{ readonly number: number }>`
        SELECT (entry ->> 'number')::int AS number
        FROM messages, jsonb_array_elements(attempt_log) WITH ORDINALITY AS log (entry, place)
        WHERE project_id = ${projectId} ORDER BY place`),
      (rows) => rows.map(({ number }) => number)
    )
    const called = new Set([1, 7, 43, 44, 45])
    for (const [turn, at] of Array.from({ length: 45 }, (_, turn) => [turn, turn * 180_000] as const)) {
      const claim = yield* claimed(at)
      assert.strictEqual(claim.number, turn + 1)
      yield* record(claim, called.has(turn + 1) ? postponed : byFailure("host_exhausted"), at)
    }
    assert.strictEqual(yield* recipientState, "failed primary 45")
    const newest = Array.from({ length: 28 }, (_, n) => n + 15)
    assert.deepStrictEqual(yield* numbers, [1, 7, ...newest, 43, 44, 45])
  })

  for (const plan of plans) {
    const { primaryType } = plan
    const hasFallback = "fallback" in plan
    for (const [what, after, isEarly] of channelChanges) {
      const title = `whose ${primaryType} channel ${what} ${hasFallback ? "and has a fallback" : "and has none"}`
      it.effect(`${title} agree with the model`, function* () {
        const { apply, claims, messages, reclaim, recordAll, states, token } = yield* scene(plan)
        const { send } = yield* TestServer
        const provider = after(primaryType)
        let known = scripts.map((script): Known => ({ ...script, ...unsent, calledBy: primaryType }))

        const assertKnown = Effect.fnUntraced(function* (when: string) {
          const titled = (all: ReadonlyArray<string>) => all.map((state, n) => ({ when, ...scripts[n], state }))
          assert.deepStrictEqual(titled(yield* states), titled(known.map(stateOf)))
          const statuses = known.flatMap(({ messages }) =>
            routes.flatMap((route) => (messages[route] === undefined ? [] : [`${messages[route]} ${route}`]))
          )
          assert.deepStrictEqual(yield* messages, statuses, when)
        })

        /** Applies the changes before the first attempts, or those during them. */
        const change = Effect.fnUntraced(function* (before: boolean) {
          const status = provider === undefined ? ("revoked" as const) : ("active" as const)
          const primary = { ...channelOf[provider ?? primaryType]("primary", nowhere), status }
          yield* apply({
            channels: [httpChannel("fallback", nowhere), ...(isEarly === before ? [primary] : [])],
            clients: scripts.flatMap(({ change, isEarly }, n) => {
              const [members, reached = routes] = changes[change]
              const addresses = reached.map((channelId) => ({ channelId, address: addressOf(n) }))
              return isEarly === before ? [{ id: clientId(n), displayName: "C", ...members, addresses }] : []
            })
          })
          for (const [n, { change, isEarly }] of scripts.entries()) {
            if (change !== "was erased" || isEarly !== before) continue
            const path = `/api/v1/developer/crm/clients/${clientId(n)}`
            receiptOf(yield* send({ method: "DELETE", path, token, key: newKey() }), 200)
          }
        })
        const providersOf = ({ change, ...script }: Script, isFirst: boolean) => {
          const reached: ReadonlyArray<Route> | undefined = changes[isFirst && !script.isEarly ? "nothing" : change][1]
          const primary = isFirst && !isEarly ? primaryType : provider
          return (
            reached && {
              primary: reached.includes("primary") ? primary : undefined,
              fallback: hasFallback && reached.includes("fallback") ? ("http" as const) : undefined
            }
          )
        }

        yield* change(true)
        let earlier: ReadonlyArray<Claim> = []
        for (let turn = 0; turn < turns; turn++) {
          const claimed = yield* claims(turn * hour, scripts.length)
          known = known.map((one) => released(one, providersOf(one, turn === 0)))
          const sending = known.filter(({ status }) => status === "sending")
          assert.sameMembers(
            claimed.map(({ channelId, inDoubt, number }) => `${channelId} ${number} ${inDoubt}`),
            sending.map(({ attempts, inDoubt, route }) => `${route} ${attempts} ${inDoubt}`)
          )
          // Late results change nothing.
          for (const outcome of [accepted, refused]) yield* recordAll(earlier.map((attempt) => [attempt, outcome]))
          yield* assertKnown(`turn ${turn}, released`)
          if (turn === 0) yield* change(false)

          const endOf = ({ ends }: Script) => (turn === turns - 1 ? "accepted" : ends[turn === 0 ? 0 : 1])
          const results = claimed.flatMap((claim) => {
            const ending = endOf(known.find((_, n) => addressOf(n) === claim.address) ?? assert.fail(claim.address))
            return ending === "lost" ? [] : [[claim, outcomesOf(turn)[ending]] as const]
          })
          yield* recordAll(results, turn * hour)
          yield* reclaim(turn * hour + 2 * lease)
          known = known.map((one) => ended(one, endOf(one), hasFallback))
          yield* assertKnown(`turn ${turn}, ended`)
          earlier = claimed
        }
      })
    }
  }
})
