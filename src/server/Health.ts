/**
 * `/healthz`: the process runs. `/readyz`: the database and the rate limiter answer, and background work goes on (contract §15).
 */
import { Effect } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import { ServiceUnavailable } from "../api/Problems.ts"
import { statement } from "../platform/database/Database.ts"
import { Supervisor } from "../platform/background/Supervisor.ts"
import { RateLimits } from "../platform/requests/rateLimit/RateLimits.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { problemResponse } from "./ProblemResponse.ts"

export const layer = HttpRouter.use(
  Effect.fnUntraced(function* (router) {
    const sql = yield* SqlClient.SqlClient
    const limits = yield* RateLimits
    const supervisor = yield* Supervisor

    const progress = Effect.suspend(() => {
      const stalled = supervisor.stalled()
      return stalled.length === 0
        ? Effect.void
        : Effect.fail(new ServiceUnavailable({ detail: `Background work makes no progress: ${stalled.join(", ")}.` }))
    })

    const ready = Effect.all([statement(sql`SELECT 1`), limits.ping], { concurrency: 2, discard: true }).pipe(
      Effect.andThen(progress),
      Effect.as(HttpServerResponse.jsonUnsafe({ status: "ready" })),
      Effect.catchTags({
        service_unavailable: (problem) => unready(problem),
        LimiterUnavailable: () => unready(new ServiceUnavailable({ detail: "The rate limiter does not answer." }))
      })
    )

    yield* router.add("GET", "/healthz", HttpServerResponse.jsonUnsafe({ status: "ok" }))
    yield* router.add("GET", "/readyz", ready)
  })
)

const unready = (problem: ServiceUnavailable) =>
  Effect.map(CurrentRequest, (request) => problemResponse(problem, request))
