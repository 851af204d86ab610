/** `audit` and `find`: what operators did, and which record an id names. */
import { Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { listActions, listServiceActions } from "../../platform/operators/Audit.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { findRecords } from "../../project/IdSearch.ts"
import { answerPage, cli } from "../Output.ts"

const list = Command.make(
  "list",
  {
    json: Flags.json,
    project: Flags.id("project", "The project's id; if not given, what concerns all projects").pipe(Flag.optional),
    ...Flags.range
  },
  Effect.fn(function* ({ json, project, ...range }) {
    const found = Option.isSome(project)
      ? yield* listActions(yield* Flags.projectId(project.value), range)
      : yield* listServiceActions(range)
    const items = found.items.map(({ action, actor, at, detail, target }) => ({ at, actor, action, target, detail }))
    yield* answerPage(json, { items, next: found.next }, "actions")
  }, onMigratedDatabase)
).pipe(
  Command.withDescription(
    "List the actions of operators in a project, or those that concern all projects, the newest first"
  ),
  Command.withExamples([{ command: `${cli} audit list --project demo` }])
)

export const audit = Command.make("audit").pipe(
  Command.withDescription("List the actions of operators, in commands and in the console"),
  Command.withSubcommands([list])
)

export const find = Command.make(
  "find",
  {
    json: Flags.json,
    project: Flags.id("project", "Search this project alone").pipe(Flag.optional),
    id: Argument.String("id").pipe(
      Argument.withMetavar("ID"),
      Argument.withDescription("The id of a record or an idempotency key, or its beginning")
    )
  },
  Effect.fn(function* ({ id, json, project }) {
    const items = yield* findRecords(Option.getOrNull(project), id)
    yield* answerPage(json, { items, next: null }, "records")
  }, onMigratedDatabase)
).pipe(
  Command.withDescription(
    "Find records by an id or its beginning, and the record that a command changed by its idempotency key"
  ),
  Command.withExamples([{ command: `${cli} find dlv_0193f0cbd4e57f70819203a4b5c6d7e8` }])
)
