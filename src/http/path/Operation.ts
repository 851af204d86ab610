/** The outermost middleware of an operation: names the route and the span of a request, and renders the problem that ends it. */
import { Cause, Context, Effect, Layer } from "effect"
import { Access } from "../../api/Access.ts"
import { Operation } from "../../api/Requests.ts"
import { CurrentRequest } from "../../platform/CurrentRequest.ts"
import { nameServerSpan } from "../../telemetry/Telemetry.ts"
import { GivenParts } from "./RequestShape.ts"
import { outcomeUnknown, problemOf, problemResponse } from "./ProblemResponse.ts"

export const layer = Layer.succeed(Operation, (operation, { endpoint }) => {
  const { policy } = Context.getUnsafe(endpoint.annotations, Access)
  const spanName = `${endpoint.method} ${endpoint.path}`

  return Effect.withFiber((fiber) => {
    const current = fiber.getRef(CurrentRequest)
    current.route = endpoint.path
    if (policy === "messages") current.unavailable = outcomeUnknown
    // The span of a tool's call keeps the name of the endpoint of agents, which is its route.
    if (fiber.getRef(GivenParts) === undefined) nameServerSpan(fiber.context, spanName)
    return Effect.catchCauseIf(operation, hasFailed, (cause) =>
      Effect.map(problemOf(cause, current), (problem) => problemResponse(problem, current))
    )
  })
})

/** Whether an operation failed. If it was interrupted, the caller has left or the process is ending. */
const hasFailed = (cause: Cause.Cause<unknown>) => !Cause.hasInterruptsOnly(cause)
