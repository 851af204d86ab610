/** How long requests take, by route, method and status; measured only where something reads it. */
import { Context, Effect, Layer, Metric, Option } from "effect"
import { Settings } from "./Settings.ts"

/** Seconds, as OpenTelemetry's semantic conventions advise for HTTP. */
const boundaries = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]

/** One answered request. */
export interface Measurement {
  /** The route's template; empty where no route was found. */
  readonly route: string
  readonly method: string
  readonly status: number
  readonly seconds: number
}

/** Records a request; undefined when neither `ADMIN_PORT` nor a telemetry endpoint is set. */
export class RequestMetrics extends Context.Service<
  RequestMetrics,
  { readonly record: ((measurement: Measurement) => void) | undefined }
>()("developer-api/platform/RequestMetrics") {
  static readonly layer = Layer.effect(
    RequestMetrics,
    Effect.gen(function* () {
      const { adminPort, telemetry } = yield* Settings
      if (Option.isNone(adminPort) && Option.isNone(telemetry)) return { record: undefined }

      const context = yield* Effect.context<never>()
      const duration = Metric.histogram("http_server_request_duration_seconds", {
        description: "How long requests took",
        boundaries
      })
      const series = new Map<string, Metric.Histogram<number>>()
      return {
        record: ({ method, route, seconds, status }) => {
          const key = `${method} ${route} ${status}`
          const known = series.get(key)
          const metric =
            known ??
            Metric.withAttributes(duration, {
              http_route: route,
              http_request_method: method,
              http_response_status_code: String(status)
            })
          if (known === undefined) series.set(key, metric)
          metric.updateUnsafe(seconds, context)
        }
      }
    })
  )
}
