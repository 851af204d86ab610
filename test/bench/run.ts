/**
 * `npm run bench`: requests per second and latencies of the service, beside a hand-written server that does the same
 * work on the same database in the same run. Rounds alternate, so that a noisy machine is noisy for both, and ratios
 * are taken pair by pair.
 */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import type { PgClient } from "@effect/sql-pg"
import { Console, Effect, Option, Schedule } from "effect"
import { Command, Flag } from "effect/cli"
import { randomUUID } from "node:crypto"
import { requestsOf } from "./Case.ts"
import { caseNames, cases } from "./Cases.ts"
import { compare, sample } from "./Check.ts"
import { document, type Measured, remarks, text } from "./Report.ts"
import type { Round, RoundPlan } from "./Round.ts"
import { BenchFailed, type Contender, fastify, make, runScript, service } from "./Stage.ts"

const positive = Flag.filter(
  (value: number) => value > 0,
  (value) => `${value} is not more than 0`
)

const flags = {
  json: Flag.Boolean("json").pipe(
    Flag.withoutNegation,
    Flag.withDefault(false),
    Flag.withDescription("Print one JSON document")
  ),
  cases: Flag.Literals("case", caseNames).pipe(
    Flag.atLeast(0),
    Flag.withDescription(`Which cases: ${caseNames.join(", ")}; all if not given`)
  ),
  seconds: Flag.Int("seconds").pipe(
    positive,
    Flag.withDefault(4),
    Flag.withDescription("Length of a round; 4 if not given")
  ),
  rounds: Flag.Int("rounds").pipe(
    positive,
    Flag.withDefault(5),
    Flag.withDescription("Rounds of each contender in each case; 5 if not given")
  ),
  connections: Flag.Int("connections").pipe(positive, Flag.withDefault(50), Flag.withDescription("50 if not given")),
  against: Flag.String("against").pipe(
    Flag.withMetavar("DIRECTORY"),
    Flag.optional,
    Flag.withDescription("Compare with the service of another checkout instead of Fastify")
  ),
  profile: Flag.String("profile").pipe(
    Flag.withMetavar("DIRECTORY"),
    Flag.optional,
    Flag.withDescription("Write a CPU profile of the service there")
  )
}

const progress = (line: string) => Effect.sync(() => process.stderr.write(`${line}\n`))

const parse = (json: string): Round => JSON.parse(json)

/** What the rounds of a case have in common. */
interface Rounds extends Omit<RoundPlan, "url" | "pid" | "stock"> {
  readonly cursors: ReadonlyArray<string | null>
}

/** One round, with answers looked at while it runs: they are asked for like those of one connection more. */
const measure = Effect.fnUntraced(function* (
  contender: Contender,
  sql: PgClient.PgClient,
  { cursors, ...plan }: Rounds
) {
  const { pid, url } = contender
  const { connections, token } = plan
  const of = cases[plan.case]
  const stock = { batch: randomUUID(), cursors }
  yield* of.prepare?.(sql, stock.batch, connections + 1) ?? Effect.void
  const next = requestsOf(of.traffic(stock, connections))
  const looking = Effect.suspend(() => sample(contender, token, next(), of)).pipe(
    Effect.repeat(Schedule.spaced("500 millis"))
  )
  const load = runScript("load.ts", JSON.stringify({ ...plan, url, pid, stock } satisfies RoundPlan))
  const round = parse(
    yield* Effect.raceFirst(
      load,
      Effect.flatMap(looking, () => Effect.never)
    )
  )
  if (round.failures > 0) {
    return yield* new BenchFailed({ message: `${contender.name}: ${round.failures} requests of ${plan.case} failed` })
  }
  return round
})

/** Rounds of both contenders, who take turns at being the first. */
const alternate = Effect.fnUntraced(function* (
  [one, other]: readonly [Contender, Contender],
  sql: PgClient.PgClient,
  plan: Rounds,
  rounds: number
) {
  // Nobody's first requests count: code is compiled and connections are opened.
  for (const contender of [one, other]) yield* measure(contender, sql, { ...plan, seconds: 2 })
  const pairs: Array<readonly [Round, Round]> = []
  for (let i = 0; i < rounds; i++) {
    const first = yield* measure(i % 2 === 0 ? one : other, sql, plan)
    const second = yield* measure(i % 2 === 0 ? other : one, sql, plan)
    const pair = i % 2 === 0 ? ([first, second] as const) : ([second, first] as const)
    pairs.push(pair)
    const rates = pair.map(({ requestsPerSecond }) => Math.round(requestsPerSecond))
    yield* progress(`${plan.case} ${i + 1}/${rounds}: ${rates.join(" : ")}`)
  }
  return pairs
})

const bench = Effect.fnUntraced(function* (options: Command.Command.Config.Infer<typeof flags>) {
  const { connections, rounds, seconds } = options
  const against = Option.match(options.against, {
    onNone: () => fastify,
    onSome: (directory) => service("theirs", directory)
  })
  yield* progress("starting PostgreSQL and both servers")
  const ours = service("ours", undefined, Option.getOrUndefined(options.profile))
  const { contenders, sql, token } = yield* make([ours, against])
  const [one, other] = contenders
  if (one === undefined || other === undefined) return yield* new BenchFailed({ message: "There are two contenders" })

  yield* progress("comparing answers and statements")
  const names = options.cases.length === 0 ? caseNames : options.cases
  const { cursors, notes } = yield* compare([one, other], token, sql, names)
  for (const note of notes) yield* progress(note)

  const measured: Array<Measured> = []
  for (const name of names) {
    const plan = { case: name, token, connections, cursors, seconds }
    measured.push({ case: name, rounds: yield* alternate([one, other], sql, plan, rounds) })
  }

  const contenderNames = [one.name, other.name] as const
  notes.push(...remarks(measured))
  const settings = { rounds, seconds, connections, node: process.version }
  yield* Console.log(
    options.json
      ? JSON.stringify(document(contenderNames, measured, settings, notes), null, 2)
      : text(contenderNames, measured, notes)
  )
}, Effect.scoped)

Command.make("bench", flags, bench).pipe(
  Command.withDescription("Measure the service against a hand-written Fastify server"),
  Command.run({ version: "1" }),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain
)
