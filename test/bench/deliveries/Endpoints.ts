/** The benchmark's access to the process of the receiver. */
import { Effect, type Redacted, Schedule } from "effect"
import { randomBytes } from "node:crypto"
import { BenchFailed, script, start } from "../Stage.ts"
import type { Arrived, Lag, ReceiverPlan } from "./Protocol.ts"

/** Secret of all signatures. */
export const secret = `whsec_${randomBytes(32).toString("base64")}`

export interface Endpoints {
  /** Endpoints that answer at once. */
  readonly urls: ReadonlyArray<string>
  readonly forget: Effect.Effect<void, BenchFailed>
  /** Waits until this many deliveries have arrived. */
  readonly received: (count: number) => Effect.Effect<Arrived, BenchFailed>
  readonly lag: Effect.Effect<Lag, BenchFailed>
}

/** Repeats an effect until its result satisfies `holds`, for at most a minute. */
export const until = <A, E, R>(what: string, question: Effect.Effect<A, E, R>, holds: (answer: A) => boolean) =>
  question.pipe(
    Effect.repeat({ until: holds, schedule: Schedule.spaced("10 millis") }),
    Effect.timeoutOrElse({
      duration: "1 minute",
      orElse: () => Effect.fail(new BenchFailed({ message: `Nothing more happens: ${what}` }))
    })
  )

export const make = Effect.fnUntraced(function* (databaseUrl: Redacted.Redacted, endpoints: number) {
  const plan: ReceiverPlan = { endpoints, secret }
  const { url } = yield* start(script("receiver", "deliveries/receiver.ts", JSON.stringify(plan)), databaseUrl)
  const ask = <A>(path: string) =>
    Effect.tryPromise({
      try: async (): Promise<A> => JSON.parse(await (await fetch(url + path)).text()),
      catch: (cause) => new BenchFailed({ message: `The receiver does not answer: ${String(cause)}` })
    })
  const ports = yield* ask<ReadonlyArray<number>>("/ports")
  const urlOf = (port: number) => `http://127.0.0.1:${port}/hooks`
  const made: Endpoints = {
    urls: ports.map(urlOf),
    forget: ask("/forget"),
    lag: ask("/lag"),
    received: (count) =>
      until("deliveries are missing", ask<Arrived>("/arrived"), (arrived) => arrived.count >= count).pipe(
        Effect.filterOrFail(
          ({ forged }) => forged === 0,
          ({ forged }) => new BenchFailed({ message: `${forged} signatures do not hold` })
        )
      )
  }
  return made
})
