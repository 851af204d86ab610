/** The environment that all comparisons share. */
import { Effect, type Redacted } from "effect"
import { keepOff, keepOn, useAll } from "../Cores.ts"
import { parentOf } from "../Cpu.ts"
import { connect, database } from "../Stage.ts"
import { type Endpoints, make as makeEndpoints } from "./Endpoints.ts"

export interface Scene {
  /** PostgreSQL, on which databases are created. */
  readonly url: Redacted.Redacted
  /** The process id of the postmaster. */
  readonly postmaster: number
  readonly endpoints: Endpoints
}

/** Starts PostgreSQL and the endpoints on all cores, or with `isApart` on a core for the servers and on the others. */
export const make = Effect.fnUntraced(function* (endpoints: number, { isApart }: { readonly isApart: boolean }) {
  if (isApart) keepOn()
  else useAll()
  const url = yield* database({})
  if (isApart) keepOff()
  const sql = yield* connect(url)
  const [backend] = yield* sql<{ readonly pid: number }>`SELECT pg_backend_pid() AS pid`
  const scene: Scene = { url, postmaster: parentOf(backend?.pid ?? 0), endpoints: yield* makeEndpoints(url, endpoints) }
  return scene
})
