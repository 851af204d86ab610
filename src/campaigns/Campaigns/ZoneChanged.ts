import { Data } from "effect"

/** The project has another time zone than the one that a local time was read in. */
export class ZoneChanged extends Data.TaggedError("ZoneChanged")<{ readonly timeZone: string }> {}
