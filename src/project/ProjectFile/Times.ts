/** Time zones as a project file names them. */
import { DateTime, Option, Schema } from "effect"

/** A zone of the IANA database. The runtime takes bare offsets too, which no calendar rule stands behind. */
export const TimeZone = Schema.String.check(
  Schema.makeFilter((text: string) => /^[A-Za-z]/.test(text) && Option.isSome(DateTime.zoneMakeNamed(text)), {
    expected: "an IANA time zone, such as Europe/Berlin"
  })
)
