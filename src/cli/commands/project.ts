/** `project`: applies and exports project files (contract §12), and lists, moves and deletes projects. */
import { Config, Console, Effect, FileSystem, Option, Redacted, Stdio, Stream, Struct } from "effect"
import { Argument, CliError, Command, Flag } from "effect/cli"
import { constants } from "node:buffer"
import * as Moves from "../../cells/Moves.ts"
import { DatabaseUrl } from "../../sql/Connections.ts"
import { recordServiceAction } from "../../operating/Audit.ts"
import { SecretBox } from "../../secrets/SecretBox.ts"
import { exportProject } from "../../project/Export.ts"
import { jsonSchema } from "../../project/ProjectFile.ts"
import { removeProject } from "../../project/Deletion.ts"
import { applyProject, listProjects } from "../../project/Projects.ts"
import { Settings } from "../../platform/Settings.ts"
import { cli, plural } from "../../platform/Text.ts"
import { url } from "../../platform/Formats.ts"
import { sealedTables } from "../../service/StoredData.ts"
import { decodeProjectId } from "../../operating/Refusals.ts"
import * as Flags from "../Flags.ts"
import { migrated, onMigratedDatabase, onNewDatabase } from "../OnDatabase.ts"
import { answer, answerPage, CommandFailed, described, tableOf, whyOf, withProgress, writeDocument } from "../Output.ts"

const apply = Command.make(
  "apply",
  {
    json: Flags.json,
    file: Argument.String("file").pipe(
      Argument.withMetavar("FILE"),
      Argument.withDescription("The project file; - reads it from standard input")
    )
  },
  Effect.fn(function* ({ file, json }) {
    const text = yield* read(file)
    const report = yield* applyProject(text).pipe(
      withProgress(`Applying ${file}`),
      Effect.provide(SecretBox.layerOfSettings),
      (applied) => onNewDatabase(Effect.andThen(migrated, applied))
    )
    const { created, projectId, unchanged, updated } = report
    const rows = Object.entries(unchanged).map(([member, unchanged]) => ({
      member,
      created: created[member] ?? 0,
      updated: updated[member] ?? 0,
      unchanged
    }))
    yield* answer(json, report, `Project ${projectId} is as the file says.\n\n${tableOf(rows)}`)
  })
).pipe(
  described("Create or update a project and its records. If anything in the file is wrong, nothing is written", {
    "acme.json": "",
    "- < acme.json": "Read from standard input"
  })
)

const list = Command.make(
  "list",
  { json: Flags.json, ...Flags.rangeById },
  Effect.fn(function* ({ json, ...range }) {
    yield* answerPage(json, yield* listProjects(range), "projects", {
      flag: "--after",
      itemOf: Struct.pick(["projectId", "name", "createdAt"])
    })
  }, onMigratedDatabase)
).pipe(described("List all projects by id", { "": "" }))

const exportCommand = Command.make(
  "export",
  {
    ...Flags.ofProject,
    output: Flag.optional(Flags.text("output", "FILE", "The file to write or replace; standard output if not given"))
  },
  Effect.fn(function* ({ json, output, project }) {
    const projectId = yield* decodeProjectId(project)
    let records = 0
    const report = yield* writeDocument(output, (write) => exportProject(projectId, write, () => void records++)).pipe(
      withProgress(`Exporting project ${project}`, () => `, ${records} records`),
      onMigratedDatabase
    )
    // Without `--output`, standard output contains the project file, so no report is printed.
    if (Option.isNone(output) || report === undefined) return
    const table = tableOf(Object.entries(report.records).map(([member, records]) => ({ member, records })))
    yield* answer(json, report, `Project ${report.projectId} is in ${output.value}.\n\n${table}`)
  })
).pipe(
  described(
    "Write a project as a project file: its state at one moment, without the secrets of its channels. The project stays in use",
    {
      "--project acme --output acme.json": "",
      "--project acme | gzip > acme.json.gz": "Write to standard output"
    }
  )
)

const schema = Command.make("schema", { json: Flags.json }, () =>
  Console.log(JSON.stringify(jsonSchema, null, 2))
).pipe(described("Print the JSON Schema of the project file", { "> project.schema.json": "" }))

const remove = Command.make(
  "delete",
  { ...Flags.ofProject, confirm: Flags.id("confirm", "The project's id again (required): a deletion can't be undone") },
  Effect.fn(function* ({ confirm, json, project }) {
    if (confirm !== project) return yield* unconfirmed(confirm)
    const projectId = yield* decodeProjectId(project)
    let removed = 0
    const removal = yield* removeProject(projectId, null, (rows) => Effect.sync(() => void (removed = rows))).pipe(
      Effect.tap(() => recordServiceAction({ action: "project.delete", target: projectId, detail: { rows: removed } })),
      withProgress(`Deleting project ${project}`, () => `, ${removed} rows`),
      onMigratedDatabase
    )
    const tables = Object.entries(removal.deleted).map(([table, rows]) => ({ table, rows }))
    yield* answer(json, removal, `Project ${project} is deleted.\n\n${tableOf(tables)}`)
  })
).pipe(
  described(
    "Delete a project with all its records: its tokens are refused at once, its rows are deleted in batches. Run it again if it was interrupted",
    { "--project acme --confirm acme": "" }
  )
)

/** A flag or an environment variable: the list of processes would show the password in a URL that is given as a flag. */
const databaseUrl = (name: string, variable: string, description: string) => {
  const given = Flag.withFallbackConfig(Flag.String(name), Config.NonEmptyString(variable))
  return Flags.decodedFlag(name, url("postgres:", "postgresql:"), "URL", description, given)
}

const moveCommand = Command.make(
  "move",
  {
    ...Flags.ofProject,
    to: databaseUrl(
      "to",
      "MOVE_TO",
      "The URL of the other cell's database (required, here or in the environment as MOVE_TO)"
    ),
    source: databaseUrl(
      "source",
      "MOVE_SOURCE",
      "The URL by which the other database reaches this one (here or in MOVE_SOURCE); DATABASE_URL if not given"
    ).pipe(Flag.optional),
    abort: Flags.toggle("abort", "End a move before its switch: leave the source as it was, and nothing at the target")
  },
  Effect.fn(
    function* ({ abort, json, project, source, to }) {
      const projectId = yield* decodeProjectId(project)
      const { databaseDirectUrl } = yield* Settings
      const here = yield* DatabaseUrl
      const own = Option.getOrElse(databaseDirectUrl, () => here)
      let reached = ""
      let last = ""
      const report = (step: string, detail = "") =>
        Effect.suspend(() => {
          reached = `: ${step}, ${detail}`
          if (step === last) return Effect.void
          last = step
          return Console.error(`${step}: ${detail}`)
        })
      const options = {
        projectId,
        targetUrl: Redacted.make(to),
        sourceUrl: Option.match(source, { onNone: () => own, onSome: Redacted.make }),
        report
      }
      const moved = yield* (abort ? Moves.abort(options) : Moves.move(options, sealedTables)).pipe(
        withProgress(`Moving project ${project}`, () => reached)
      )
      yield* answer(json, moved, afterMove(moved))
    },
    (effect) => Effect.provide(effect, SecretBox.layerOfSettings).pipe(onMigratedDatabase)
  )
).pipe(
  described(
    "Move a project to the database of another cell while it is in use. Run it again after a crash, and once the router leads to the other cell",
    {
      "MOVE_TO=postgres://…/cell_02 --project acme": "",
      "MOVE_TO=postgres://…/cell_02 --project acme --abort": "Before the switch"
    }
  )
)

const afterMove = ({ fencedMs, projectId, rows, state }: Moves.Moved) => {
  switch (state) {
    case "aborted":
      return `The move of project ${projectId} is aborted.`
    case "cleaned":
      return `Project ${projectId} is deleted here: the move is complete.`
    case "switched":
      return [
        `The other cell serves project ${projectId}.`,
        ...(rows === null
          ? []
          : [`Both sides were equal in ${plural(rows, "row", "rows")}. The fence lasted ${fencedMs} ms.`]),
        "Now put what `cells map` prints for both cells in place of their lines in the map of the router, and reload the router.",
        "Run this command again only when the router leads there: it deletes the project here."
      ].join("\n")
  }
}

const unconfirmed = (value: string) => {
  const expected = "the project's id, as in --project"
  const error = new CliError.InvalidValue({ option: "confirm", value, expected, kind: "flag" })
  return new CliError.ShowHelp({ commandPath: [...cli.split(" "), "project", "delete"], errors: [error] })
}

export const project = Command.make("project").pipe(
  Command.withDescription("Apply and export project files, and list, move and delete projects"),
  Command.withSubcommands([apply, exportCommand, list, schema, moveCommand, remove])
)

const read = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  const stdio = yield* Stdio.Stdio
  const bytes = yield* (file === "-" ? Stream.runCollect(stdio.stdin) : Effect.map(fs.readFile(file), Array.of)).pipe(
    Effect.map((chunks) => Buffer.concat(chunks)),
    Effect.mapError(
      ({ reason }) => new CommandFailed({ message: `Cannot read ${file} (${whyOf(reason, "it does not exist")})` })
    )
  )
  if (bytes.length > constants.MAX_STRING_LENGTH)
    return yield* new CommandFailed({ message: `Cannot read ${file} (it is longer than 512 MiB)` })
  return yield* Effect.try({
    try: () => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes),
    catch: () => new CommandFailed({ message: `Cannot read ${file} (it is not UTF-8)` })
  })
})
