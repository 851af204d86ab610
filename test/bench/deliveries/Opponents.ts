/**
 * The opponents of the service: job queues on PostgreSQL whose workers do the same for a delivery. Each has its own database
 * on the same server, and records there what is done.
 */
import { Effect, Redacted } from "effect"
import { makeWorkerUtils } from "graphile-worker"
import { PgBoss } from "pg-boss"
import { BenchFailed, connect, script, start } from "../Stage.ts"
import type { Contender, Job } from "./Protocol.ts"
import { type Endpoints, secret } from "./Endpoints.ts"
import { eventType, installationId, projectId, traceparent, type Work } from "./Work.ts"

/** Converts work to a job that has all the data that the worker needs. */
const jobOf =
  ({ urls }: Endpoints) =>
  ({ data, endpoint, eventId, id, occurredAt }: Work): Job => ({
    id,
    url: urls[endpoint] ?? "",
    traceparent,
    event: {
      id: eventId,
      type: eventType,
      timestamp: occurredAt,
      projectId,
      installationId: installationId(endpoint),
      data: JSON.parse(data)
    }
  })

/** Runs an operation of a library, which returns a promise. */
const call = <A>(run: () => Promise<A>) =>
  Effect.tryPromise({ try: run, catch: (cause) => new BenchFailed({ message: String(cause) }) })

/** Starts graphile-worker; `inFlight` is the number of jobs that run concurrently. */
export const graphileWorker = Effect.fnUntraced(function* (
  url: Redacted.Redacted,
  endpoints: Endpoints,
  inFlight: number
) {
  const sql = yield* connect(url)
  const program = script("graphile-worker", "deliveries/graphile-worker.ts", secret)
  // graphile-worker logs every finished job unless that is disabled.
  const { name, pid } = yield* start(program, url, { NO_LOG_SUCCESS: "1", IN_FLIGHT: String(inFlight) })
  const utils = yield* Effect.acquireRelease(
    call(() => makeWorkerUtils({ connectionString: Redacted.value(url) })),
    (utils) => Effect.promise(async () => utils.release())
  )
  const contender: Contender = {
    name,
    pid,
    give: (work) =>
      call(() => utils.addJobs(work.map((one) => ({ identifier: "deliver", payload: jobOf(endpoints)(one) })))),
    done: Effect.map(sql`SELECT FROM graphile_worker._private_jobs LIMIT 1`, (rows) => rows.length === 0)
  }
  return contender
})

export const pgBoss = Effect.fnUntraced(function* (url: Redacted.Redacted, endpoints: Endpoints, inFlight: number) {
  const sql = yield* connect(url)
  const { name, pid } = yield* start(script("pg-boss", "deliveries/pg-boss.ts", secret), url, {
    IN_FLIGHT: String(inFlight)
  })
  const connectionString = Redacted.value(url)
  const boss = new PgBoss({ connectionString, schedule: false, supervise: false, migrate: false })
  yield* Effect.acquireRelease(
    call(() => boss.start()),
    () => Effect.promise(() => boss.stop({ graceful: false }))
  )
  const contender: Contender = {
    name,
    pid,
    give: (work) =>
      call(() =>
        boss.insert(
          "deliver",
          work.map((one) => ({ data: jobOf(endpoints)(one) }))
        )
      ),
    done: Effect.map(sql`SELECT FROM pgboss.job WHERE state < 'completed' LIMIT 1`, (rows) => rows.length === 0)
  }
  return contender
})
