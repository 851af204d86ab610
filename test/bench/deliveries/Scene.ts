/** The parts that all comparisons share. */
import { Effect, type Redacted } from "effect"
import { parentOf } from "../Cpu.ts"
import { connect, database } from "../Stage.ts"
import { type Endpoints, make as makeEndpoints } from "./Endpoints.ts"

export interface Scene {
  /** PostgreSQL, to make databases on. */
  readonly url: Redacted.Redacted
  /** Its process. */
  readonly postmaster: number
  readonly endpoints: Endpoints
}

/** PostgreSQL as it comes: every commit is flushed. Only that it keeps the time of each, to tell how old news is. */
const flags = { track_commit_timestamp: "on" }

export const make = Effect.fnUntraced(function* (endpoints: number) {
  const url = yield* database(flags)
  const sql = yield* connect(url)
  const [backend] = yield* sql<{ readonly pid: number }>`SELECT pg_backend_pid() AS pid`
  const scene: Scene = { url, postmaster: parentOf(backend?.pid ?? 0), endpoints: yield* makeEndpoints(url, endpoints) }
  return scene
})
