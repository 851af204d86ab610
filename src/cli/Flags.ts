/** Flags that several commands share. */
import { Effect, Option, Schema } from "effect"
import { CliError, Flag } from "effect/cli"
import { Instant } from "../api/schema/Fields.ts"
import { faultsOf } from "../api/schema/Faults.ts"
import { DurationText, integer as integerText } from "../platform/Formats.ts"

export const toggle = (name: string, description: string) =>
  Flag.Boolean(name).pipe(Flag.withoutNegation, Flag.withDefault(false), Flag.withDescription(description))

export const text = (name: string, metavar: string, description: string, given = Flag.String(name)) =>
  given.pipe(Flag.withMetavar(metavar), Flag.withDescription(description))

export const id = (name: string, description: string) => text(name, "ID", description)

/** A flag that may be left out, such as one that restricts a list: null if it is not given. */
export const filter = <A>(flag: Flag.Flag<A>): Flag.Flag<A | null> =>
  flag.pipe(Flag.optional, Flag.map(Option.getOrNull))

export const choice = <const Choice extends string>(
  name: string,
  choices: ReadonlyArray<Choice>,
  description: string
) => filter(Flag.Literals(name, choices).pipe(Flag.withMetavar(name.toUpperCase()), Flag.withDescription(description)))

export const code = (name: string, description: string) => filter(text(name, "CODE", description))

export const json = toggle("json", "Print one JSON document")

export const ofProject = { json, project: id("project", "The project's id (required)") }

/** An invalid value is a usage error (exit code 2) that says what the schema expects. */
export const decodedFlag = <A>(
  name: string,
  schema: Schema.Codec<A, string>,
  metavar: string,
  description: string,
  given?: Flag.Flag<string>
): Flag.Flag<A> =>
  text(name, metavar, description, given).pipe(Flag.mapEffect((value) => decodeFlag(name, schema, value)))

const decodeFlag = <A>(name: string, schema: Schema.Codec<A, string>, value: string) =>
  Effect.mapError(Schema.decodeUnknownEffect(schema)(value), ({ issue }) => {
    const faults = faultsOf(issue).map(({ message }) => message.replace(/^must be /, ""))
    return new CliError.InvalidValue({ option: name, value, expected: faults.join(", "), kind: "flag" })
  })

/** A flag whose value stays a text, once the schema accepts it. */
export const checkedFlag = (name: string, schema: Schema.Codec<unknown, string>): Flag.Flag<string> =>
  Flag.String(name).pipe(Flag.mapEffect((value) => Effect.as(decodeFlag(name, schema, value), value)))

export const time = (name: string, description: string): Flag.Flag<Date> =>
  decodedFlag(name, Instant, "TIME", `${description}: RFC 3339, such as 2026-12-01T09:00:00Z`).pipe(
    Flag.map((text) => new Date(text))
  )

export const integer = (name: string, min: number, max: number, description: string) =>
  decodedFlag(name, integerText(min, max), "NUMBER", description)

/** The flags that select a page of a list. The value of `flag` is the `next` of the previous page. */
const rangeWith = <Name extends "before" | "after">(flag: Name, description: string) => ({
  limit: integer("limit", 1, 1_000, "Maximum number of items, at most 1000; 100 if not given").pipe(
    Flag.withDefault(100)
  ),
  after: filter(id(flag, description))
})

export const range = rangeWith("before", "Only items older than this one: the `next` of the page before")

/** A range of records by age, with a period in which they were created. */
export const rangeByAge = {
  ...range,
  since: filter(time("since", "Only items that were created at this time or later")),
  until: filter(time("until", "Only items that were created before this time"))
}

export const rangeById = rangeWith("after", "Only items after this one: the `next` of the page before")

export const duration = (name: string, description: string) => decodedFlag(name, DurationText, "DURATION", description)
