/** Measures the durations of requests, by route, method, status and protocol, and counts the replays of stored outcomes. */
import { Context, Effect, Layer, Metric } from "effect"
import * as HttpApi from "effect/http-api/HttpApi"
import { Api } from "../../api/Api.ts"
import { atZero, MetricsEnabled } from "../../telemetry/Telemetry.ts"

/** The boundaries, in seconds, are those of OpenTelemetry's semantic conventions for HTTP. */
const boundaries = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

interface Measurement {
  /** The route's template; empty for an unknown route. */
  readonly route: string
  readonly method: string
  readonly protocol: "http" | "mcp"
  readonly status: number
  readonly seconds: number
  readonly replayed: boolean
}

/** `record` is undefined if metrics are disabled. */
export class RequestMetrics extends Context.Service<
  RequestMetrics,
  { readonly record: ((measurement: Measurement) => void) | undefined }
>()("developer-api/http/answers/RequestMetrics") {
  static readonly layer = Layer.effect(
    RequestMetrics,
    Effect.gen(function* () {
      if (!(yield* MetricsEnabled)) return { record: undefined }

      const context = yield* Effect.context<never>()
      const duration = Metric.histogram("http_server_request_duration_seconds", {
        description: "Duration of requests",
        boundaries
      })
      const replays = Metric.counter("idempotent_replays_total", {
        description: "Requests answered by a replay",
        incremental: true
      })
      const errors = Metric.counter("http_server_errors_total", {
        description: "Requests that the service could not answer, by route and status",
        incremental: true
      })
      const errorsOf = (method: string, route: string, status: number) =>
        Metric.withAttributes(errors, {
          http_route: route,
          http_request_method: method,
          http_response_status_code: String(status)
        })
      const replaysOf = (method: string, route: string, protocol: Measurement["protocol"]) =>
        Metric.withAttributes(replays, { http_route: route, http_request_method: method, protocol })
      const operations: Array<{ readonly method: string; readonly path: string }> = []
      HttpApi.reflect(Api, { onGroup: () => {}, onEndpoint: ({ endpoint }) => void operations.push(endpoint) })
      yield* atZero(
        operations.flatMap(({ method, path }) => [
          errorsOf(method, path, 500),
          errorsOf(method, path, 503),
          ...(method === "GET" ? [] : [replaysOf(method, path, "http"), replaysOf(method, path, "mcp")])
        ])
      )
      const series = new Map<string, Metric.Histogram<number>>()
      return {
        record: ({ method, protocol, replayed, route, seconds, status }) => {
          const key = `${protocol} ${method} ${route} ${status}`
          const known = series.get(key)
          const metric =
            known ??
            Metric.withAttributes(duration, {
              http_route: route,
              http_request_method: method,
              http_response_status_code: String(status),
              protocol
            })
          if (known === undefined) series.set(key, metric)
          metric.updateUnsafe(seconds, context)
          if (replayed) replaysOf(method, route, protocol).updateUnsafe(1, context)
          if (status >= 500) errorsOf(method, route, status).updateUnsafe(1, context)
        }
      }
    })
  )
}
