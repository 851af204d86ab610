/** Flags that the subcommands share, and the report of their progress. */
import { Effect } from "effect"
import { Flag } from "effect/cli"

/** Creates a flag whose value is a whole number of at least 1. */
export const count = (name: string, usual: number, what: string) =>
  Flag.Int(name).pipe(
    Flag.filter(
      (value) => value > 0,
      (value) => `${value} is not more than 0`
    ),
    Flag.withDefault(usual),
    Flag.withDescription(`${what}; ${usual} if not given`)
  )

/** Writes a line to standard error; standard output is for the findings. */
export const progress = (line: string) => Effect.sync(() => process.stderr.write(`${line}\n`))
