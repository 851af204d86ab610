/** What the subcommands share: flags, and how they tell what they are at. */
import { Effect } from "effect"
import { Flag } from "effect/cli"

/** A whole number of at least 1. */
export const count = (name: string, usual: number, what: string) =>
  Flag.Int(name).pipe(
    Flag.filter(
      (value) => value > 0,
      (value) => `${value} is not more than 0`
    ),
    Flag.withDefault(usual),
    Flag.withDescription(`${what}; ${usual} if not given`)
  )

/** Where the CPU profile of the service goes. */
export const profile = Flag.String("profile").pipe(
  Flag.withMetavar("DIRECTORY"),
  Flag.optional,
  Flag.withDescription("Write a CPU profile of the service there")
)

/** A line on standard error: standard output is for the findings. */
export const progress = (line: string) => Effect.sync(() => process.stderr.write(`${line}\n`))

/** What a subcommand found: for a program, and for a reader. */
export interface Findings {
  readonly document: object
  readonly text: string
}
