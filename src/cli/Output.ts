/** The output of commands: one JSON document or a text, on standard output. */
import { Console, Duration, Effect, Option, Stdio, Stream } from "effect"
import { CliOutput } from "effect/cli"
import { withEscapes, withoutInvisible } from "../platform/UnsafeText.ts"

/** The beginning of a command line, in usage and examples. */
export const cli = "npm run --silent cli --"

/** Prints the result of a command as JSON or as text. Escapes characters of records that would act on a terminal. */
export const answer = (json: boolean, document: object, text: string): Effect.Effect<void> => {
  const lines = (json ? JSON.stringify(document, null, 2) : text).split("\n")
  return Console.log(lines.map(withEscapes).join("\n"))
}

/**
 * Prints a page of a list of `what`. The text is a table with the members of the items as columns. On a terminal, it ends with
 * the flag that gets the next page.
 */
export const answerPage = Effect.fnUntraced(function* <Item extends object>(
  json: boolean,
  { items, next }: { readonly items: ReadonlyArray<Item>; readonly next: string | null },
  what: string,
  {
    columnsOf = (item) => item,
    flag = "--before"
  }: { readonly columnsOf?: (item: Item) => object; readonly flag?: "--before" | "--after" } = {}
) {
  const { stdoutIsTerminal } = yield* Stdio.Stdio
  const text = items.length === 0 ? `No ${what}` : tableOf(items.map(columnsOf))
  const rest = next !== null && (yield* stdoutIsTerminal) ? `\n\nThere are more: add ${flag} ${oneLine(next)}` : ""
  yield* answer(json, { items, next }, `${text}${rest}`)
})

export const isOnTerminal = Effect.flatMap(Stdio.Stdio, ({ stdoutIsTerminal }) => stdoutIsTerminal)

export const confirm = Effect.fnUntraced(function* (question: string) {
  const { stdin } = yield* Stdio.Stdio
  yield* Console.error(`${oneLine(question)} [y/N]`)
  const lines = stdin.pipe(Stream.decodeText(), Stream.splitLines)
  const answered = yield* Effect.orDie(Stream.runHead(lines))
  return Option.exists(answered, (line) => /^y(es)?$/i.test(line.trim()))
})

/** A table of rows with the same members: the names of the members are the head. */
export const tableOf = (rows: ReadonlyArray<object>): string => {
  const head = Object.keys(rows[0] ?? {}).map((name) => name.replaceAll(/[A-Z]/g, " $&").toUpperCase())
  return table([head, ...rows.map((row) => Object.values(row).map(cellOf))])
}

/** The first row is the head. */
export const table = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const cells = rows.map((row) => row.map(oneLine))
  const widths = (cells[0] ?? []).map((_, i) =>
    cells.reduce((widest, row) => Math.max(widest, CliOutput.displayWidth(row[i] ?? "")), 0)
  )
  return cells
    .map((row) =>
      row
        .map((cell, i) => cell + " ".repeat((widths[i] ?? 0) - CliOutput.displayWidth(cell)))
        .join("  ")
        .trimEnd()
    )
    .join("\n")
}

const cellOf = (value: unknown): string => {
  if (value === null) return "-"
  if (Array.isArray(value)) return value.join(",")
  if (value instanceof Date) return value.toISOString()
  return typeof value === "object" ? JSON.stringify(value) : String(value)
}

/** Replaces line breaks, invisible characters, and others that could control a terminal. */
export const oneLine = (text: string): string => withoutInvisible(text).trim()

/** Shows the seconds and the progress of a long task on standard error, if that is a terminal. */
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
