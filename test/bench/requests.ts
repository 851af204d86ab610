/** `bench requests`: requests per second and latency, compared with a hand-written server that does the same. */
import { Console, Effect, Option, Schedule } from "effect"
import { Command, Flag } from "effect/cli"
import { count, progress } from "./Options.ts"
import { compare, text } from "./Report.ts"
import { type CaseName, caseNames, cases, clients, command as post, fields, requestsOf } from "./requests/Cases.ts"
import { ask, compareAnswers, sample } from "./requests/Check.ts"
import type { RoundPlan } from "./requests/load.ts"
import { person } from "./requests/Seed.ts"
import { load, make, type Server } from "./requests/Servers.ts"
import { BenchFailed, type Running, script, service } from "./Stage.ts"

export const usual = { cases: caseNames, seconds: 4, rounds: 5, connections: 50, against: Option.none<string>() }

const flags = {
  cases: Flag.Literals("case", caseNames).pipe(
    Flag.atLeast(0),
    Flag.map((cases) => (cases.length === 0 ? caseNames : cases)),
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

/** Runs one round. A sample of answers is checked meanwhile, with requests like those of one more connection. */
const runRound = Effect.fnUntraced(function* (plan: RoundPlan) {
  const next = requestsOf(cases[plan.case], plan.cursors)
  const looking = Effect.suspend(() => sample(plan.server, plan.token, next(), cases[plan.case])).pipe(
    Effect.repeat(Schedule.spaced("500 millis")),
    Effect.andThen(Effect.never)
  )
  const round = yield* Effect.raceFirst(load(plan), looking)
  if (round.failures === 0) return round
  const message = `${plan.server.name}: ${round.failures} requests of ${plan.case} failed`
  return yield* new BenchFailed({ message })
})

/** Measures the time that a first load takes: new clients by batches, one after the other. */
const loadClients = Effect.fnUntraced(function* (server: Running, token: string) {
  const [batches, size] = [100, 100]
  const begun = performance.now()
  for (let batch = 0; batch < batches; batch++) {
    const items = Array.from({ length: size }, (_, i) => ({ ...person(i), externalId: `load-${batch}-${i}` }))
    const { body } = yield* ask(server, token, post("POST", `${clients}/batch`, { items }, `bench-load-${batch}`))
    const made = JSON.stringify(body).split('"created":true').length - 1
    if (made !== size) return yield* new BenchFailed({ message: `A batch made ${made} clients` })
  }
  const seconds = (performance.now() - begun) / 1_000
  return `${batches * size} new clients by batches of ${size}: ${seconds.toFixed(1)} s`
})

/** Starts both servers, compares their answers, measures them, and prints the table. */
export const measure = Effect.fnUntraced(function* ({
  against,
  cases: names,
  connections,
  rounds,
  seconds
}: Omit<typeof usual, "cases"> & { readonly cases: ReadonlyArray<CaseName> }) {
  const opponent = Option.match(against, {
    onNone: () => script("fastify", "requests/fastify.ts"),
    onSome: (directory) => service("theirs", directory)
  })
  yield* progress("starting PostgreSQL and both servers")
  const { servers, sql, token } = yield* make([service("ours"), opponent])
  const [ours, theirs] = servers
  if (ours === undefined || theirs === undefined) return yield* new BenchFailed({ message: "There are two contenders" })

  yield* progress("comparing answers")
  const cursors = yield* compareAnswers([ours, theirs], token, sql, names)
  const measured = yield* Effect.forEach(names, (name) =>
    compare(name, servers, rounds, fields, (server: Server) =>
      runRound({ case: name, server, token, connections, cursors, seconds })
    )
  )
  yield* Console.log(text(fields, measured.flat()))
  yield* Console.log(yield* loadClients(ours, token))
}, Effect.scoped)

export const command = Command.make("requests", flags, measure).pipe(
  Command.withDescription("Requests per second, against a hand-written Fastify server")
)
