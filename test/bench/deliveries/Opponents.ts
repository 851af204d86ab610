/**
 * The opponents of the service: job queues on PostgreSQL whose workers do the same for a delivery. Each has its own database
 * on the same server, and records there what is done. `inFlight` is the number of jobs that run concurrently.
 */
import { Effect, Redacted } from "effect"
import { makeWorkerUtils } from "graphile-worker"
import { PgBoss } from "pg-boss"
import { projectId } from "../requests/Seed.ts"
import { BenchFailed, connect, script, start } from "../Stage.ts"
import { type Endpoints, secret } from "./Scene.ts"
import type { Job } from "./Post.ts"
import { type Contender, eventType, installationId, traceparent, type Work } from "./Work.ts"

/** Converts work to a job that has all the data that the worker needs. */
const jobOf =
  ({ urls }: Endpoints) =>
  ({ data, endpoint, eventId, id, occurredAt: timestamp }: Work): Job => ({
    id,
    url: urls[endpoint] ?? "",
    traceparent,
    event: {
      id: eventId,
      type: eventType,
      timestamp,
      projectId,
      installationId: installationId(endpoint),
      data: JSON.parse(data)
    }
  })

/** Runs an operation of a library, which returns a promise. */
const call = <A>(run: () => Promise<A>) =>
  Effect.tryPromise({ try: run, catch: (cause) => new BenchFailed({ message: String(cause) }) })

export const graphileWorker = Effect.fnUntraced(function* (
  url: Redacted.Redacted,
  endpoints: Endpoints,
  inFlight: number
) {
  const sql = yield* connect(url)
  // graphile-worker logs every finished job unless that is disabled.
  const env = { NO_LOG_SUCCESS: "1", IN_FLIGHT: String(inFlight) }
  const { name, pid } = yield* start(script("graphile-worker", "deliveries/graphile-worker.ts", secret), url, env)
  const utils = yield* Effect.acquireRelease(
    call(() => makeWorkerUtils({ connectionString: Redacted.value(url) })),
    (utils) => Effect.promise(async () => utils.release())
  )
  const job = jobOf(endpoints)
  const contender: Contender = {
    name,
    pid,
    give: (work) => call(() => utils.addJobs(work.map((one) => ({ identifier: "deliver", payload: job(one) })))),
    done: Effect.map(sql`SELECT FROM graphile_worker._private_jobs LIMIT 1`, (rows) => rows.length === 0)
  }
  return contender
})

export const pgBoss = Effect.fnUntraced(function* (url: Redacted.Redacted, endpoints: Endpoints, inFlight: number) {
  const sql = yield* connect(url)
  const env = { IN_FLIGHT: String(inFlight) }
  const { name, pid } = yield* start(script("pg-boss", "deliveries/pg-boss.ts", secret), url, env)
  const boss = new PgBoss({ connectionString: Redacted.value(url), schedule: false, supervise: false, migrate: false })
  yield* Effect.acquireRelease(
    call(() => boss.start()),
    () => Effect.promise(() => boss.stop({ graceful: false }))
  )
  const job = jobOf(endpoints)
  const contender: Contender = {
    name,
    pid,
    give: (work) =>
      call(() =>
        boss.insert(
          "deliver",
          work.map((one) => ({ data: job(one) }))
        )
      ),
    done: Effect.map(sql`SELECT FROM pgboss.job WHERE state < 'completed' LIMIT 1`, (rows) => rows.length === 0)
  }
  return contender
})
