/** The output of commands: one JSON document or a text, on standard output, only on success. */
import { Console, Duration, Effect, Stdio } from "effect"
import { CliOutput } from "effect/cli"

/** The command line of commands, in usage and examples. */
export const cli = "npm run --silent cli --"

/** Prints the result of a command, as JSON or as text. */
export const answer = (json: boolean, document: object, text: string): Effect.Effect<void> =>
  Console.log(json ? JSON.stringify(document, null, 2) : text)

/** Formats rows as aligned columns. The first row is the head. */
export const table = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const cells = rows.map((row) => row.map(oneLine))
  const widths = (cells[0] ?? []).map((_, i) => Math.max(...cells.map((row) => CliOutput.displayWidth(row[i] ?? ""))))
  return cells
    .map((row) =>
      row
        .map((cell, i) => cell + " ".repeat((widths[i] ?? 0) - CliOutput.displayWidth(cell)))
        .join("  ")
        .trimEnd()
    )
    .join("\n")
}

/** Replaces line breaks and other control characters, which would act on the terminal. */
// oxlint-disable-next-line no-control-regex
export const oneLine = (text: string): string => text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, " ").trim()

/** Shows the progress of a long task, on a terminal only. */
export const withProgress =
  (what: string, reached: () => string = () => "") =>
  <A, E, R>(task: Effect.Effect<A, E, R>): Effect.Effect<A, E, R | Stdio.Stdio> =>
    Effect.gen(function* () {
      const stdio = yield* Stdio.Stdio
      if (!(yield* stdio.stderrIsTerminal)) return yield* task
      yield* Effect.addFinalizer(() => Effect.sync(() => process.stderr.write("\r\u001b[K")))
      yield* Effect.forkScoped(tick(what, reached))
      return yield* task
    }).pipe(Effect.scoped)

const tick = Effect.fnUntraced(function* (what: string, reached: () => string) {
  for (let seconds = 1; ; seconds++) {
    yield* Effect.sleep(Duration.seconds(1))
    process.stderr.write(`\r\u001b[K${what} … ${seconds} s${reached()}`)
  }
})
