/** The environment that all comparisons share: PostgreSQL, and the process of the receiver. */
import { Effect, type Redacted, Schedule } from "effect"
import { randomBytes } from "node:crypto"
import { keepOff, keepOn, useAll } from "../Cores.ts"
import { parentOf } from "../Cpu.ts"
import { BenchFailed, connect, database, script, start } from "../Stage.ts"
import type { Arrived, ReceiverPlan } from "./receiver.ts"

/** Secret of all signatures. */
export const secret = `whsec_${randomBytes(32).toString("base64")}`

/** Repeats an effect until its result satisfies `holds`, for at most a minute. */
export const until = <A, E, R>(what: string, question: Effect.Effect<A, E, R>, holds: (answer: A) => boolean) =>
  question.pipe(
    Effect.repeat({ until: holds, schedule: Schedule.spaced("10 millis") }),
    Effect.timeoutOrElse({
      duration: "1 minute",
      orElse: () => Effect.fail(new BenchFailed({ message: `Nothing more happens: ${what}` }))
    })
  )

export type Endpoints = Effect.Success<ReturnType<typeof makeEndpoints>>

const makeEndpoints = Effect.fnUntraced(function* (databaseUrl: Redacted.Redacted, endpoints: number) {
  const plan: ReceiverPlan = { endpoints, secret }
  const { url } = yield* start(script("receiver", "deliveries/receiver.ts", JSON.stringify(plan)), databaseUrl)
  const ask = <A>(path: string) =>
    Effect.tryPromise({
      try: async (): Promise<A> => JSON.parse(await (await fetch(url + path)).text()),
      catch: (cause) => new BenchFailed({ message: `The receiver does not answer: ${String(cause)}` })
    })
  const ports = yield* ask<ReadonlyArray<number>>("/ports")
  return {
    /** Endpoints that answer at once. */
    urls: ports.map((port) => `http://127.0.0.1:${port}/hooks`),
    forget: ask<Arrived>("/forget"),
    lag: ask<Arrived>("/lag"),
    /** Waits until this many deliveries have arrived. */
    received: (count: number) =>
      until("deliveries are missing", ask<Arrived>("/arrived"), (arrived) => arrived.count >= count).pipe(
        Effect.filterOrFail(
          ({ forged }) => forged === 0,
          ({ forged }) => new BenchFailed({ message: `${forged} signatures do not hold` })
        )
      )
  }
})

export type Scene = Effect.Success<ReturnType<typeof make>>

/** Starts PostgreSQL and the endpoints on all cores, or with `isApart` on a core for the servers and on the others. */
export const make = Effect.fnUntraced(function* (endpoints: number, { isApart }: { readonly isApart: boolean }) {
  if (isApart) keepOn()
  else useAll()
  const url = yield* database({})
  if (isApart) keepOff()
  const sql = yield* connect(url)
  const [backend] = yield* sql<{ readonly pid: number }>`SELECT pg_backend_pid() AS pid`
  return { url, postmaster: parentOf(backend?.pid ?? 0), endpoints: yield* makeEndpoints(url, endpoints) }
})
