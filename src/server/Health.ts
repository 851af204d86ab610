/**
 * `/healthz`: the process runs. `/readyz`: the database answers, and background work goes on (contract §15). Redis is not part of it:
 * requests answer for it themselves, and the sends of messages go on without it.
 */
import { Effect } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import { ServiceUnavailable } from "../api/Problems.ts"
import { statement } from "../platform/database/Database.ts"
import { Supervisor } from "../platform/background/Supervisor.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { problemResponse } from "./ProblemResponse.ts"

export const layer = HttpRouter.use(
  Effect.fnUntraced(function* (router) {
    const sql = yield* SqlClient.SqlClient
    const supervisor = yield* Supervisor

    const progress = Effect.suspend(() => {
      const stalled = supervisor.stalled()
      return stalled.length === 0
        ? Effect.void
        : Effect.fail(new ServiceUnavailable({ detail: `Background work makes no progress: ${stalled.join(", ")}.` }))
    })

    const ready = statement(sql`SELECT 1`).pipe(
      Effect.andThen(progress),
      Effect.as(HttpServerResponse.jsonUnsafe({ status: "ready" })),
      Effect.catchTag("service_unavailable", (problem) => unready(problem))
    )

    yield* router.add("GET", "/healthz", HttpServerResponse.jsonUnsafe({ status: "ok" }))
    yield* router.add("GET", "/readyz", ready)
  })
)

const unready = (problem: ServiceUnavailable) =>
  Effect.map(CurrentRequest, (request) => problemResponse(problem, request))
