/** A project for one test, with the operations on its clients. */
import { Effect } from "effect"
import { clientOf, pageOf, receiptOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { type Parts, type Seeded, TestServer } from "../support/TestServer.ts"
import { callsOn } from "./Records.support.ts"

export const path = "/api/v1/developer/crm/clients"

const calls = callsOn(path, clientOf, pageOf)

/** Returns calls on a project's clients with one of its tokens. */
export const callsOf = (server: TestServer["Service"], seeded: Seeded) => {
  const clients = calls(server, seeded)
  return {
    ...clients,
    /** Creates a client; returns its id. */
    created: (json: object = {}) =>
      Effect.map(clients.create({ displayName: "New", ...json }), (answer) => receiptOf(answer, 201).resourceId)
  }
}

/** Creates a project. */
export const open = Effect.fnUntraced(function* (parts?: Parts) {
  const server = yield* TestServer
  return callsOf(server, yield* server.seed(parts))
})

/** Runs effects concurrently; `run` gets the index of each. */
export const atOnce = <A, E, R>(times: number, run: (index: number) => Effect.Effect<A, E, R>) =>
  Effect.forEach(
    Array.from({ length: times }, (_, index) => index),
    run,
    { concurrency: "unbounded" }
  )

export const statusesOf = (answers: ReadonlyArray<Answer>) => {
  const counts: Record<string, number> = {}
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1
  return counts
}
