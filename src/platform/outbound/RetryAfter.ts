/** How long a `Retry-After` header asks to be left alone, in either form of RFC 9110 (section 10.2.3). */
import { type Duration, Option, Result } from "effect"
import { Headers } from "effect/http"

/** Counted from `now`, in milliseconds; none for a header that can't be read. */
export const delayOf = (header: Option.Option<string>, now: number): Option.Option<Duration.Duration> =>
  header.pipe(
    Option.flatMap((value) => Result.getSuccess(Headers.parseRetryAfter(value))),
    Option.map((value) => Headers.retryAfterDelay(value, now))
  )
