/** The output of commands: one JSON document or a text, on standard output. */
import {
  Console,
  Data,
  Duration,
  Effect,
  FileSystem,
  Option,
  Path,
  type PlatformError,
  Predicate,
  Stdio,
  Stream
} from "effect"
import { CliOutput, Command } from "effect/cli"
import { withEscapes, withoutInvisible } from "../platform/Text.ts"
import { randomBytes } from "node:crypto"

/**
 * Describes a command. Each key of `examples` has the arguments of an example, after the variables of its environment, and the value
 * says what it does.
 */
export const described =
  (description: string, examples: Readonly<Record<string, string>>) =>
  <const Name extends string, Input, Context, E, R>(command: Command.Command<Name, Input, Context, E, R>) =>
    command.pipe(
      Command.withDescription(description),
      Command.withExamples(({ commandPath }) =>
        Object.entries(examples).map(([line, description]) => {
          const [, variables = "", args = ""] = /^((?:[A-Z_]+=\S+ ?)*)(.*)$/.exec(line) ?? []
          return { command: `${variables.trim()} ${commandPath.join(" ")} ${args}`.trim(), description }
        })
      )
    )

/** A command failed for the reason in the message. */
export class CommandFailed extends Data.TaggedError("CommandFailed")<{ readonly message: string }> {}

/** Prints the result of a command as JSON or as text. Escapes characters of records that would act on a terminal. */
export const answer = (json: boolean, document: object, text: string): Effect.Effect<void> => {
  const lines = (json ? JSON.stringify(document, null, 2) : text).split("\n")
  return Console.log(lines.map(withEscapes).join("\n"))
}

interface Printed<Item> {
  /** Returns what is printed of a record, and its columns in the table if these differ. */
  readonly itemOf?: (item: Item) => object
  readonly columnsOf?: (item: Item) => object
  readonly flag?: "--before" | "--after"
}

/** Prints a page of a list of `what`, as a table by default. On a terminal, it ends with the flag that gets the next page. */
export const answerPage = Effect.fnUntraced(function* <Item extends object>(
  json: boolean,
  { items, next }: { readonly items: ReadonlyArray<Item>; readonly next: string | null },
  what: string,
  { columnsOf, flag = "--before", itemOf = (item) => item }: Printed<Item> = {}
) {
  const { stdoutIsTerminal } = yield* Stdio.Stdio
  const text = items.length === 0 ? `No ${what}` : tableOf(items.map(columnsOf ?? itemOf))
  const rest = next !== null && (yield* stdoutIsTerminal) ? `\n\nThere are more: add ${flag} ${oneLine(next)}` : ""
  yield* answer(json, { items: items.map(itemOf), next }, `${text}${rest}`)
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
  const padded = (cell: string, i: number) => cell + " ".repeat((widths[i] ?? 0) - CliOutput.displayWidth(cell))
  return cells.map((row) => row.map(padded).join("  ").trimEnd()).join("\n")
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

/** Writes a piece. The document generates the next piece after this piece is written. */
type Write = (text: string) => Effect.Effect<void, PlatformError.PlatformError>
type Document<A, E, R> = (write: Write) => Effect.Effect<A, E | PlatformError.PlatformError, R>

/**
 * Writes a document to a file, or to standard output if `file` is none. Fails with `CommandFailed` if it can't be written.
 * Returns undefined if the reader of standard output closes its pipe early.
 */
export const writeDocument = <A, E, R>(file: Option.Option<string>, document: Document<A, E, R>) =>
  Effect.gen(function* () {
    return Option.isSome(file) ? yield* toFile(file.value, document) : yield* toStandardOutput(document)
  }).pipe(
    Effect.catchIf(isPlatformError, ({ reason }) => {
      const place = Option.getOrElse(file, () => "standard output")
      return new CommandFailed({ message: `Cannot write ${place} (${whyOf(reason, "its folder does not exist")})` })
    })
  )

/** What is written before a failure stays written. */
const toStandardOutput = Effect.fnUntraced(function* <A, E, R>(document: Document<A, E, R>) {
  const stdio = yield* Stdio.Stdio
  return yield* document((text) => Stream.run(Stream.make(text), stdio.stdout({ endOnDone: false }))).pipe(
    Effect.catchIf(
      (error) => isPlatformError(error) && whyOf(error.reason, "") === "EPIPE",
      () => Effect.undefined
    )
  )
})

/**
 * Writes a temporary file in the same folder, and renames it when it is complete and on disk. So a failure leaves an existing
 * file unchanged. Only the owner may read a new file. A file that is not regular, such as a pipe, is written in place.
 */
const toFile = Effect.fnUntraced(function* <A, E, R>(file: string, document: Document<A, E, R>) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const existing = yield* Effect.option(fs.stat(file))
  // Opened for appending, because a pipe has no position to write at.
  if (Option.exists(existing, ({ type }) => type !== "File"))
    return yield* writeTo(yield* fs.open(file, { flag: "a" }), document)
  // Replaces the target of a symbolic link, not the link.
  const place = Option.isSome(existing) ? yield* fs.realPath(file) : file
  const part = path.join(path.dirname(place), `.${path.basename(place)}.${randomBytes(6).toString("hex")}.part`)
  const mode = Option.match(existing, { onNone: () => 0o600, onSome: (info) => info.mode & 0o777 })
  const opened = yield* fs.open(part, { flag: "wx", mode })
  return yield* writeTo(opened, document).pipe(
    Effect.tap(() => Effect.andThen(opened.sync, fs.rename(part, place))),
    Effect.onError(() => Effect.ignore(fs.remove(part)))
  )
}, Effect.scoped)

const encoder = new TextEncoder()

const writeTo = <A, E, R>(opened: FileSystem.File, document: Document<A, E, R>) =>
  document((text) => opened.writeAll(encoder.encode(text)))

const isPlatformError = (error: unknown): error is PlatformError.PlatformError =>
  Predicate.isTagged(error, "PlatformError")

/** Says why a file can't be read or written: `missing` if it or its folder does not exist, else the code of the error. */
export const whyOf = ({ _tag, cause }: PlatformError.PlatformError["reason"], missing: string): string =>
  _tag === "NotFound" ? missing : Predicate.hasProperty(cause, "code") ? String(cause.code) : _tag
