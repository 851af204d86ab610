/** Writes a document in pieces, to a file or to standard output. */
import { Data, Effect, FileSystem, Option, Path, type PlatformError, Predicate, Stdio, Stream } from "effect"
import { randomBytes } from "node:crypto"

class OutputFailed extends Data.TaggedError("OutputFailed")<{ readonly message: string }> {}

/** Writes a piece. The document generates the next piece after this piece is written. */
type Write = (text: string) => Effect.Effect<void, PlatformError.PlatformError>
type Document<A, E, R> = (write: Write) => Effect.Effect<A, E | PlatformError.PlatformError, R>

/**
 * Writes a document to a file, or to standard output if `file` is none. Fails with `OutputFailed` if it can't be written.
 * Returns undefined if the reader of standard output closes its pipe early.
 */
export const writeDocument = <A, E, R>(file: Option.Option<string>, document: Document<A, E, R>) =>
  Effect.gen(function* () {
    return Option.isSome(file) ? yield* toFile(file.value, document) : yield* toStandardOutput(document)
  }).pipe(
    Effect.catchIf(isPlatformError, ({ reason }) => {
      const place = Option.getOrElse(file, () => "standard output")
      return Effect.fail(
        new OutputFailed({ message: `Cannot write ${place} (${whyOf(reason, "its folder does not exist")})` })
      )
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

/**
 * Says why a file can't be read or written: the text `missing` if it or its folder does not exist, else the error code of the
 * operating system, such as EACCES.
 */
export const whyOf = ({ _tag, cause }: PlatformError.PlatformError["reason"], missing: string): string =>
  _tag === "NotFound" ? missing : Predicate.hasProperty(cause, "code") ? String(cause.code) : _tag
