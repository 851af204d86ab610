/** Runs a command line: prints failures, and sets the exit status (contract §13). */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Config, Console, Effect, Exit, Layer, Option, Runtime, Schema } from "effect"
import { CliConfig, CliError, CliOutput, Command, GlobalFlag } from "effect/cli"
import { SqlError } from "effect/sql"
import manifest from "../../package.json" with { type: "json" }
import { reasonOf } from "../sql/Database.ts"
import { MigrationFailed } from "../sql/migrations/Migrations.ts"
import { redactSecrets } from "../platform/Text.ts"
import { oneLine } from "./Output.ts"

/**
 * Runs a command with the arguments of the process. Exits with 0 for success, 2 for wrong usage, 1 for any other failure.
 * Commands handle signals themselves.
 */
export const run = <const Name extends string, Input, ContextInput, E>(
  command: Command.Command<Name, Input, ContextInput, E, Command.Environment>
): void => perform(command).pipe(Effect.provide(NodeServices.layer), runMain({ disableErrorReporting: true, teardown }))

export const signalled = Effect.callback<void>((resume) => {
  const stop = () => resume(Effect.void)
  process.once("SIGINT", stop).once("SIGTERM", stop)
  return Effect.sync(() => process.off("SIGINT", stop).off("SIGTERM", stop))
})

/** Runs a command with the arguments of the service `Stdio`, and prints its failure. */
export const perform = <const Name extends string, Input, ContextInput, E>(
  command: Command.Command<Name, Input, ContextInput, E, Command.Environment>
) => Command.run(command, { version: manifest.version }).pipe(Effect.tapCause(report), Effect.provide(presentation))

const runMain = Runtime.makeRunMain(({ fiber, teardown }) => {
  let lost: NodeJS.ErrnoException | undefined
  process.stdout.on("error", (error) => (lost ??= error))
  // Without a listener, the process would end if a log line can't be written, for example because the disk is full.
  process.stderr.on("error", () => {})
  fiber.addObserver((exit) => teardown(exit, (status) => exitWhenWritten(status, () => lost)))
})

/** Exits after all output is written. If it can't be written, the command fails, unless the reader has closed the pipe. */
const exitWhenWritten = (status: number, lost: () => NodeJS.ErrnoException | undefined) =>
  process.stdout.write("", () =>
    // The stream reports an error only after the callback of `write`.
    setImmediate(() => {
      const code = lost()?.code ?? "EPIPE"
      if (status !== 0 || code === "EPIPE") return process.exit(status)
      process.stderr.write(`Cannot write standard output (${code})\n`, () => process.exit(1))
    })
  )

export const teardown: Runtime.Teardown = (exit, onExit) =>
  Exit.isFailure(exit) && isWrongUsage(Cause.squash(exit.cause)) ? onExit(2) : Runtime.defaultTeardown(exit, onExit)

const isWrongUsage = (error: unknown) => CliError.isCliError(error) && error._tag === "ShowHelp"

const report = Effect.fnUntraced(function* (cause: Cause.Cause<unknown>) {
  const error = Cause.squash(cause)
  // The presenter has already reported wrong usage.
  if (Cause.hasInterruptsOnly(cause) || isWrongUsage(error)) return
  yield* Console.error(faultLines(error).map(printable).join("\n"))
  // The stack trace of a defect or of a failed statement is only useful for debugging.
  const isTraced = Cause.hasDies(cause) || error instanceof SqlError.SqlError
  const logLevel = yield* Effect.option(Config.String("LOG_LEVEL"))
  if (isTraced && Option.contains(logLevel, "debug")) yield* Console.error(Cause.pretty(cause))
})

const printable = (text: string): string => oneLine(redactSecrets(text))

export const faultLines = (error: unknown): ReadonlyArray<string> => {
  if (hasFaults(error)) return error.faults
  if (error instanceof SqlError.SqlError) return [`The database can't be used: ${reasonOf(error)}`]
  if (error instanceof MigrationFailed) return [`${error.message}: ${reasonOf(error.cause)}`]
  return [error instanceof Error && error.message !== "" ? error.message : String(error)]
}

/** Recognizes errors of settings and files by their shape, because only some commands load the modules with their classes. */
const hasFaults = Schema.is(Schema.Struct({ faults: Schema.Array(Schema.String) }))

/** Prints wrong usage as one line on standard error; effect/cli would print the whole help on standard output. */
const present = (event: CliOutput.Presenter.Event) => {
  switch (event._tag) {
    case "InvalidInvocation":
      return Console.error(`${usageFault(event.errors)}; see ${event.commandPath.join(" ")} --help`)
    case "Help":
      return event.reason === "Requested"
        ? CliOutput.defaultPresenter.present(event)
        : Console.error(`A command is missing; see ${event.commandPath.join(" ")} --help`)
    case "Version":
      return Console.log(event.version)
  }
}

const usageFault = (errors: ReadonlyArray<CliError.NonShowHelpErrors>) => {
  // If the command is unknown, nothing else is reported, because its flags can't be checked.
  const unknown = errors.find((error) => error._tag === "UnknownSubcommand")
  return printable((unknown === undefined ? errors : [unknown]).map(describe).join("; "))
}

const describe = (error: CliError.NonShowHelpErrors): string => {
  switch (error._tag) {
    case "UnknownSubcommand":
      return `Unknown command: ${error.subcommand}${suggestion(error.suggestions)}`
    case "UnrecognizedOption":
      return `Unknown flag: ${error.option}${suggestion(error.suggestions)}`
    default:
      return error.message
  }
}

const suggestion = (suggestions: ReadonlyArray<string>) =>
  suggestions.length > 0 ? ` (did you mean ${suggestions.join(" or ")}?)` : ""

const presentation = Layer.mergeAll(
  CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version] }),
  CliOutput.layerPresenter({ present })
)
