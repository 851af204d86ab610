/** When a campaign is to start: a time on the project's clocks as an instant (contract §9). */
import { DateTime, Option, Result } from "effect"
import { isDay } from "../api/Fields.ts"

const localPattern = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2})$/

/**
 * The instant at which the clocks of a zone show a local time: the earlier one where they show it twice. Fails with what
 * is wrong with the time: it is in no calendar, the clocks skip it, or its minute began before `now`.
 */
export const instantOf = (local: string, timeZone: string, now: Date): Result.Result<Date, string> => {
  const [, year, month, day, hour, minute] = (localPattern.exec(local) ?? []).map(Number)
  if (year === undefined || month === undefined || day === undefined || hour === undefined || minute === undefined) {
    return Result.fail(`${local} is no local time.`)
  }
  if (!isDay(year, month, day) || hour > 23 || minute > 59) return Result.fail(`${local} is in no calendar.`)
  const shown = new Date(0)
  // Date.UTC takes the years below 100 for those of the last century.
  shown.setUTCFullYear(year, month - 1, day)
  shown.setUTCHours(hour, minute)
  const zoned = DateTime.makeZoned(shown, { timeZone, adjustForTimeZone: true, disambiguation: "earlier" })
  if (Option.isNone(zoned)) return Result.fail(`The project's time zone ${timeZone} is not known here.`)
  // Inside a gap no instant shows the time; what comes back shows another.
  if (DateTime.toDate(zoned.value).getTime() !== shown.getTime()) {
    return Result.fail(`The clocks of ${timeZone} skip ${local}.`)
  }
  const instant = DateTime.toDateUtc(zoned.value)
  return instant < now ? Result.fail(`${local} in ${timeZone} is past.`) : Result.succeed(instant)
}
