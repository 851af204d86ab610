/** Converts a campaign's local start time to an instant (contract §9). */
import { DateTime, Option, Result } from "effect"
import { ScheduleInvalid } from "../api/Problems.ts"
import { isDay } from "../api/schema/Fields.ts"

const localPattern = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2})$/

/**
 * Returns the instant of a local time in a zone. If the time occurs twice, returns the earlier instant. Fails with a readable
 * message if the calendar lacks the date, the clocks skip the time, or the instant is before `now`.
 */
export const instantOf = (local: string, timeZone: string, now: Date): Result.Result<Date, string> => {
  const [, year, month, day, hour, minute] = (localPattern.exec(local) ?? []).map(Number)
  if (year === undefined || month === undefined || day === undefined || hour === undefined || minute === undefined) {
    return Result.fail(`${local} is no local time.`)
  }
  if (!isDay(year, month, day) || hour > 23 || minute > 59) return Result.fail(`${local} is in no calendar.`)
  const shown = new Date(0)
  // Not Date.UTC, which maps years below 100 to the 20th century.
  shown.setUTCFullYear(year, month - 1, day)
  shown.setUTCHours(hour, minute)
  const zoned = DateTime.makeZoned(shown, { timeZone, adjustForTimeZone: true, disambiguation: "earlier" })
  if (Option.isNone(zoned)) return Result.fail(`The project's time zone ${timeZone} is not known here.`)
  // If the clocks skip this local time, `zoned` shows another local time.
  if (DateTime.toDate(zoned.value).getTime() !== shown.getTime()) {
    return Result.fail(`The clocks of ${timeZone} skip ${local}.`)
  }
  const instant = DateTime.toDateUtc(zoned.value)
  return instant < now ? Result.fail(ScheduleInvalid.detail(local, timeZone)) : Result.succeed(instant)
}
