/** The delay of a `Retry-After` header, in either form of RFC 9110 (section 10.2.3). */
import { type Duration, Option, Result } from "effect"
import { Headers } from "effect/http"

/** Returns the delay from `now`, in milliseconds; none for a header that cannot be parsed. */
export const delayOf = (header: Option.Option<string>, now: number): Option.Option<Duration.Duration> =>
  header.pipe(
    Option.flatMap((value) => Result.getSuccess(Headers.parseRetryAfter(value))),
    Option.map((value) => Headers.retryAfterDelay(value, now))
  )
