/** Requests of callers. They are sent as they are given, because the service names their faults. */
import { Context, Function } from "effect"
import { HttpClientRequest } from "effect/http"

/** A request of a caller. A member that is undefined counts as absent, as in JSON. */
export interface CallerRequest {
  readonly params?: Readonly<Record<string, string | number>> | undefined
  readonly query?: Readonly<Record<string, string | number | undefined>> | undefined
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined
  readonly payload?: unknown
}

type Completion = (operation: HttpClientRequest.HttpClientRequest) => HttpClientRequest.HttpClientRequest

/**
 * Completes what the current call sends. `HttpApiClient` encodes a request by the schemas of its endpoint, which fails for what the
 * service should refuse. So its methods are called without a request: they send the method and the path of an operation.
 */
export const Completion = Context.Reference<Completion>("developer-api/client/Completion", {
  defaultValue: () => Function.identity
})

export const completion =
  (service: string, { headers = {}, params = {}, payload, query = {} }: CallerRequest): Completion =>
  (operation) => {
    // Text that no URL can contain becomes text that names no record.
    const segment = (_: string, name: string) => encodeURIComponent(String(params[name] ?? "").toWellFormed())
    const request = operation.pipe(
      HttpClientRequest.setUrl(`${service.replace(/\/$/, "")}${operation.url.replaceAll(/:(\w+)/g, segment)}`),
      HttpClientRequest.appendUrlParams(query),
      HttpClientRequest.setHeaders(headers)
    )
    return payload === undefined ? request : HttpClientRequest.bodyJsonUnsafe(request, payload)
  }
