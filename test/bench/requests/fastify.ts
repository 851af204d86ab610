/**
 * The reference implementation: clients get, list, create and patch, written by hand on Fastify
 * and pg as a good engineer would, with the same work per request as the service: token, scopes, rate limit, request id,
 * validation, statements, events, ETag, replay, problems.
 *
 * Differences: it reports the faults of one slot of a request at a time, where the service gathers all (on its error path
 * only). It sends one statement at a time on each of its 20 connections, as pg does, where the service pipelines on as many
 * connections and watches their sockets.
 */
import pg from "pg"
import { makeApp } from "./fastify/App.ts"
import { clients } from "./fastify/Clients.ts"
import { makeCursors } from "./fastify/Cursor.ts"
import { makeGuard } from "./fastify/Guard.ts"

const { DATABASE_URL: connectionString = "", PORT = "0", SECRET_KEY: secret = "" } = process.env

// Converts "2026-11-20 10:00:00.12" of `timestamp` to the text of JSON without a `Date`.
pg.types.setTypeParser(
  pg.types.builtins.TIMESTAMP,
  (text) => `${text.slice(0, 10)}T${text.slice(11, 19)}.${text.slice(20).padEnd(3, "0")}Z`
)

const pool = new pg.Pool({
  connectionString,
  application_name: "fastify",
  max: 20,
  connectionTimeoutMillis: 4000,
  query_timeout: 4000,
  statement_timeout: 3500,
  lock_timeout: 1000,
  keepAlive: true
})
pool.on("error", (error) => process.stderr.write(`${error.message}\n`))

const app = makeApp()
const guard = makeGuard(pool)
clients(app, pool, guard, makeCursors(secret))

process.stdout.write(`listening on ${await app.listen({ host: "127.0.0.1", port: Number(PORT) })}\n`)
