/** `bench requests`: requests per second and latency, compared with a hand-written server that does the same. */
import { Console, Effect, Option, Schedule } from "effect"
import { Command, Flag } from "effect/cli"
import { count, progress } from "./Options.ts"
import { loadClients } from "./requests/Batches.ts"
import { requestsOf } from "./requests/Case.ts"
import { type CaseName, caseNames, cases } from "./requests/Cases.ts"
import { compare, sample } from "./requests/Check.ts"
import { type MeasuredCase, text } from "./requests/Report.ts"
import type { Round, RoundPlan } from "./requests/Round.ts"
import { fastify, load, make, type Server } from "./requests/Servers.ts"
import { BenchFailed, service } from "./Stage.ts"

export interface Options {
  readonly cases: ReadonlyArray<CaseName>
  readonly seconds: number
  readonly rounds: number
  readonly connections: number
  readonly against: Option.Option<string>
}

export const usual: Options = {
  cases: caseNames,
  seconds: 4,
  rounds: 5,
  connections: 50,
  against: Option.none()
}

const flags = {
  cases: Flag.Literals("case", caseNames).pipe(
    Flag.atLeast(0),
    Flag.withDescription(`Which cases: ${caseNames.join(", ")}; all if not given`)
  ),
  seconds: count("seconds", usual.seconds, "Length of a round"),
  rounds: count("rounds", usual.rounds, "Rounds of each contender in each case"),
  connections: count("connections", usual.connections, "Connections of the load"),
  against: Flag.String("against").pipe(
    Flag.withMetavar("DIRECTORY"),
    Flag.optional,
    Flag.withDescription("Compare with the service of another checkout instead of Fastify")
  )
}

/** The settings that the rounds of a case share. */
type Rounds = Omit<RoundPlan, "url" | "pid" | "promoted">

/** Runs one round. A sample of answers is checked meanwhile, with requests like those of one more connection. */
const runRound = Effect.fnUntraced(function* (contender: Server, plan: Rounds) {
  const { pid, promoted, url } = contender
  const of = cases[plan.case]
  const next = requestsOf(of.traffic(plan.cursors))
  const looking = Effect.suspend(() => sample(contender, plan.token, next(), of)).pipe(
    Effect.repeat(Schedule.spaced("500 millis"))
  )
  const round = yield* Effect.raceFirst(
    load({ ...plan, url, pid, promoted }),
    Effect.flatMap(looking, () => Effect.never)
  )
  if (round.failures > 0) {
    return yield* new BenchFailed({ message: `${contender.name}: ${round.failures} requests of ${plan.case} failed` })
  }
  return round
})

/** Runs rounds of both contenders, whose order alternates. */
const alternate = Effect.fnUntraced(function* ([one, other]: readonly [Server, Server], plan: Rounds, rounds: number) {
  // The first round is not counted: code is compiled and connections are opened.
  for (const contender of [one, other]) yield* runRound(contender, { ...plan, seconds: Math.min(2, plan.seconds) })
  const pairs: Array<readonly [Round, Round]> = []
  for (let i = 0; i < rounds; i++) {
    const first = yield* runRound(i % 2 === 0 ? one : other, plan)
    const second = yield* runRound(i % 2 === 0 ? other : one, plan)
    const pair = i % 2 === 0 ? ([first, second] as const) : ([second, first] as const)
    pairs.push(pair)
    const rates = pair.map(({ requestsPerSecond }) => Math.round(requestsPerSecond))
    yield* progress(`${plan.case} ${i + 1}/${rounds}: ${rates.join(" : ")}`)
  }
  return pairs
})

/** Starts both servers, compares their answers, measures them, and returns the table. */
export const measure = Effect.fnUntraced(function* ({ connections, rounds, seconds, ...options }: Options) {
  const against = Option.match(options.against, {
    onNone: () => fastify,
    onSome: (directory) => service("theirs", { directory })
  })
  yield* progress("starting PostgreSQL and both servers")
  const ours = service("ours")
  const { contenders, sql, token } = yield* make([ours, against])
  const [one, other] = contenders
  if (one === undefined || other === undefined) return yield* new BenchFailed({ message: "There are two contenders" })

  yield* progress("comparing answers")
  const cursors = yield* compare([one, other], token, sql, options.cases)
  const measured: Array<MeasuredCase> = []
  for (const name of options.cases) {
    const plan = { case: name, token, connections, cursors, seconds }
    const pairs = yield* alternate([one, other], plan, rounds)
    measured.push({ case: name, contenders: [one.name, other.name], rounds: pairs })
  }
  return `${text(measured)}\n${yield* loadClients(one, token)}`
}, Effect.scoped)

export const command = Command.make(
  "requests",
  flags,
  Effect.fnUntraced(function* (options) {
    const cases = options.cases.length === 0 ? caseNames : options.cases
    yield* Console.log(yield* measure({ ...options, cases }))
  })
).pipe(Command.withDescription("Requests per second, against a hand-written Fastify server"))
