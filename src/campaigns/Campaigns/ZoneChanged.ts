import { Data } from "effect"

/** The project's time zone differs from the one in which a local time was read. */
export class ZoneChanged extends Data.TaggedError("ZoneChanged")<{ readonly timeZone: string }> {}
