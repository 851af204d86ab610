/** Time zones of a project file. */
import { DateTime, Option, Schema } from "effect"

/** A zone of the IANA database. The runtime also accepts bare offsets, which are excluded. */
export const TimeZone = Schema.String.check(
  Schema.makeFilter((text: string) => /^[A-Za-z]/.test(text) && Option.isSome(DateTime.zoneMakeNamed(text)), {
    expected: "an IANA time zone, such as Europe/Berlin"
  })
)
