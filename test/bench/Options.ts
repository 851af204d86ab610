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

/** Directory of the CPU profile of the service. */
export const profile = Flag.String("profile").pipe(
  Flag.withMetavar("DIRECTORY"),
  Flag.optional,
  Flag.withDescription("Write a CPU profile of the service there")
)

/** Writes a line to standard error; standard output is for the findings. */
export const progress = (line: string) => Effect.sync(() => process.stderr.write(`${line}\n`))
