/**
 * Any part is killed at any moment, alone or with others, under a mix of every mutation, then the workers during calls of
 * campaigns: each command is applied once, each event is delivered or dead-lettered, each recipient is sent to once
 * (contract §5, §8 to §10). `ROUNDS` sets the number of rounds before the campaigns, `SEED` what is killed.
 */
import { assert } from "@effect/vitest"
import fc from "fast-check"
import { describe, it } from "vitest"
import { requires } from "../support/Programs.ts"
import { makeCalls, mutations } from "./Mix.calls.support.ts"
import { makeLedger, openCallers, runCallers, type Scene, startCrowd } from "./Mix.callers.support.ts"
import { balance, everyCommand, settled } from "./Mix.ledger.support.ts"
import { type PartName, partNames, type Round, startParts } from "./Mix.parts.support.ts"
import { openProject } from "./Mix.project.support.ts"
import { accept, acceptSilently, type Answering, ignore, type Kind } from "./Providers.support.ts"

const numberOf = (name: string, usual: number) => Number(process.env[name] ?? usual)
const rounds = numberOf("ROUNDS", 3)
const seed = numberOf("SEED", Date.now() % 1_000_000)

/** The parts killed in a round, mostly one, within a third of a second. */
const victims = fc.oneof(
  { weight: 2, arbitrary: fc.subarray([...partNames], { minLength: 1, maxLength: 1 }) },
  { weight: 1, arbitrary: fc.subarray([...partNames], { minLength: 2 }) }
)
const plan: ReadonlyArray<Round> = fc.sample(
  fc
    .tuple(victims, fc.array(fc.nat(300), { minLength: partNames.length, maxLength: partNames.length }))
    .map(([names, millis]) => names.map((name, n) => [name, millis[n] ?? 0] as const)),
  { numRuns: rounds, seed }
)

/** What the provider does with a call of a campaign during which the workers are killed, some of them with PostgreSQL. */
const lastCalls: ReadonlyArray<readonly [kind: Kind, last: Answering, ...others: ReadonlyArray<PartName>]> = [
  ["http", ignore],
  ["telegram", acceptSilently],
  ["http", accept, "postgres"],
  ["telegram", ignore],
  ["http", acceptSilently],
  ["telegram", accept, "postgres"]
]

/** Waits for a call of a long campaign; from then on, the provider ignores the calls of these campaigns. */
const lastCall = ({ project: { provider } }: Scene, kind: Kind, last: Answering) =>
  new Promise<void>((resolve) =>
    provider.answerWith((call) => {
      if (!call.text.startsWith(`${kind} to Crowd-`)) return accept(call)
      provider.answerWith((later) => (later.text.includes(" to Crowd-") ? ignore : accept)(later))
      last(call)
      resolve()
    })
  )

describe("a mix of every mutation under kill -9 of any part", () => {
  requires("redis")

  it(
    `applies each answered command once over ${rounds} rounds, sends to each recipient once, and loses no event`,
    { timeout: 3_600_000 },
    async () => {
      const parts = await startParts()
      const project = await openProject(parts.databaseUrl)
      const calls = makeCalls(parts, project.token)
      const scene: Scene = { env: parts.env, project, calls, ledger: makeLedger(), mutations }
      const { failed, run } = runCallers()
      const { operator, others, retries } = await openCallers(scene)
      const stopRetries = run(retries, 200)
      const stops = [run(operator, 1_000), ...others.map((caller) => run(caller, 150))]

      const killed = new Map<string, number>()
      const killAll = async () => {
        const kill = async (round: Round) => {
          await parts.run(round)
          for (const [name] of round) killed.set(name, (killed.get(name) ?? 0) + 1)
        }
        for (const round of plan) {
          await calls.goOn()
          await kill(round)
        }
        await everyCommand(scene)
        await Promise.all(stops.map((stop) => stop()))
        await startCrowd(scene, 600)
        for (const [kind, last, ...others] of lastCalls) {
          await lastCall(scene, kind, last)
          await kill((["worker-1", "worker-2", ...others] as const).map((name) => [name, 0]))
          project.provider.answerWith(accept)
        }
        await parts.areReady()
        await settled(scene)
        await stopRetries()
      }
      await Promise.race([failed, killAll()])

      const { again, dead, deliveries, events, ofCampaigns, unknown } = await balance(scene)
      assert.isAbove(dead, 0)
      // Otherwise no worker was killed during a call. Calls without an answer that may not be repeated are left to an operator.
      assert.isAbove(ofCampaigns.repeated, 0)
      assert.isAtLeast(ofCampaigns.unanswered, 2)
      assert.isAbove(ofCampaigns.once, 0)
      const { counts } = calls
      console.log(
        `${rounds} rounds (SEED=${seed}) of kill -9: ${[...killed].map(([name, times]) => `${name} ${times}`).join(", ")}. ` +
          `${calls.answered()} commands: ${counts.cut} connections cut, ${counts.refused} answers 503, ` +
          `${counts.replayed} answered by a replay. ${events} events, ${deliveries} deliveries, ${dead} dead-lettered, ` +
          `${again} taken more than once. ${scene.ledger.messages.size} messages, ${unknown} of unknown outcome.`
      )
    }
  )
})
