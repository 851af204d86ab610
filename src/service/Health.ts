/**
 * `/healthz`: the process runs. `/readyz`: the database takes reads and writes (contract §15). Redis is not part of it: requests answer
 * for it themselves, and the sends of messages go on without it. Nor is background work: what stalls it, such as a statement that takes
 * too long, is the same for all processes, and a balancer would take all of them out. Log, metrics and alerts tell of it.
 */
import { Context, Duration, Effect, Layer, Metric } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { SqlClient, type SqlError } from "effect/sql"
import { sqlClients } from "../sql/Connections.ts"
import { statement, unavailable } from "../sql/Database.ts"
import { forkPeriodic } from "../work/Supervisor.ts"
import { listWorkers } from "../work/Worker.ts"
import { gauge, MetricsEnabled, untraced } from "../telemetry/Telemetry.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { makeMeasure } from "./Metrics.ts"
import { problemResponse } from "../http/path/ProblemResponse.ts"

const measureEvery = Duration.seconds(10)

const readiness = Metric.withAttributes(gauge("service_ready", "1 while a check of readiness succeeds, by check"), {
  check: "database"
})

/** Every process measures it, so that it is known while no process works in the background. */
const workers = gauge(
  "background_workers",
  "Processes that work in the background: webhooks, retries, campaigns; those that hang are not counted"
)

export const layer = HttpRouter.use(
  Effect.fnUntraced(function* (router) {
    const sql = yield* SqlClient.SqlClient
    const mutations = Context.get(yield* Layer.build(sqlClients.mutations), SqlClient.SqlClient)
    const checks = Effect.all([answers(sql), takesWrites(mutations)], { concurrency: 2, discard: true })
    if (yield* MetricsEnabled) {
      // Only here: a caller of `/readyz` that goes away interrupts the checks, which says nothing about the database.
      const checked = Effect.onExit(checks, ({ _tag }) => Metric.update(readiness, _tag === "Success" ? 1 : 0))
      const counted = Effect.flatMap(statement(listWorkers(sql)), (live) =>
        Metric.update(workers, live.filter(({ isHung }) => !isHung).length)
      )
      const measure = yield* makeMeasure
      const measurements = Effect.all([measure, Effect.ignore(checked), Effect.ignore(counted)])
      yield* forkPeriodic("measurement of readiness", { interval: measureEvery }, untraced(Effect.asVoid(measurements)))
    }

    const ready = untraced(checks).pipe(
      Effect.as(HttpServerResponse.jsonUnsafe({ status: "ready" })),
      Effect.catchTag("service_unavailable", (problem) =>
        Effect.map(CurrentRequest, (request) => problemResponse(problem, request))
      )
    )

    yield* router.add("GET", "/healthz", HttpServerResponse.jsonUnsafe({ status: "ok" }))
    yield* router.add("GET", "/readyz", ready)
  })
)

const answers = (sql: SqlClient.SqlClient) => check(sql`SELECT FROM projects WHERE project_id = ''`)

/** Locks no row, but PostgreSQL refuses the statement where it refuses writes: at a standby, and in a session that is read-only. */
const takesWrites = (sql: SqlClient.SqlClient) =>
  check(sql`SELECT FROM projects WHERE project_id = '' FOR NO KEY UPDATE`)

/** Whatever the reason, a database that does not run the statement is not ready, for example one without the tables. */
const check = (query: Effect.Effect<unknown, SqlError.SqlError>) =>
  Effect.catchDefect(statement(query), (defect) =>
    Effect.andThen(Effect.logWarning("The database can't be used", defect), Effect.fail(unavailable()))
  )
