/** Flags that several commands share. */
import { Effect, Schema } from "effect"
import { CliError, Flag } from "effect/cli"
import { ProjectId } from "../api/Ids.ts"
import { faultsOf } from "../api/Faults.ts"
import { ProjectUnknown } from "../platform/ProjectUnknown.ts"
import { DurationText } from "../platform/Settings/Formats.ts"

export const json = Flag.Boolean("json").pipe(
  Flag.withoutNegation,
  Flag.withDefault(false),
  Flag.withDescription("Print one JSON document")
)

export const project = Flag.String("project").pipe(
  Flag.withMetavar("ID"),
  Flag.withDescription("The project's id (required)")
)

/** Decodes the id of a project. A text that is not a valid id is that of an unknown project. */
export const projectId = (text: string): Effect.Effect<ProjectId, ProjectUnknown> =>
  Schema.decodeEffect(ProjectId)(text).pipe(Effect.mapError(() => new ProjectUnknown({ projectId: text })))

/** A flag that a schema decodes. A fault is wrong usage. */
export const decoded = <A>(name: string, schema: Schema.Codec<A, string>): Flag.Flag<A> => {
  const decode = Schema.decodeUnknownEffect(schema)
  return Flag.String(name).pipe(
    Flag.mapEffect((value) =>
      Effect.mapError(decode(value), ({ issue }) => {
        const faults = faultsOf(issue).map(({ message }) => message.replace(/^must be /, ""))
        return new CliError.InvalidValue({ option: name, value, expected: faults.join(", "), kind: "flag" })
      })
    )
  )
}

/** An integer flag. */
export const integer = (name: string, min: number, max: number) => {
  const expected = `an integer from ${min} to ${max}`
  return Flag.String(name).pipe(
    Flag.withMetavar("NUMBER"),
    Flag.mapEffect((value) =>
      /^[0-9]{1,9}$/.test(value) && Number(value) >= min && Number(value) <= max
        ? Effect.succeed(Number(value))
        : Effect.fail(new CliError.InvalidValue({ option: name, value, expected, kind: "flag" }))
    )
  )
}

/** The installation of a webhook. */
export const installation = Flag.String("installation").pipe(
  Flag.withMetavar("ID"),
  Flag.withDescription("The installation's id (required)")
)

/** A duration flag: `90d`, `24h`, `5s`. */
export const duration = (name: string) => decoded(name, DurationText).pipe(Flag.withMetavar("DURATION"))
