/** `audit` and `find`: what operators did, and which record an id names. */
import { Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { type Entry, listActions, listServiceActions } from "../../operators/Audit.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { historyOf } from "../../project/History.ts"
import { findRecords } from "../../project/IdSearch.ts"
import { answer, answerPage, cli, tableOf } from "../Output.ts"
import { itemOf } from "./deliveries.ts"

const list = Command.make(
  "list",
  {
    json: Flags.json,
    project: Flags.id("project", "The project's id; if not given, what concerns all projects").pipe(Flag.optional),
    ...Flags.rangeByAge
  },
  Effect.fn(function* ({ json, project, ...range }) {
    const found = Option.isSome(project)
      ? yield* listActions(yield* Flags.projectId(project.value), range)
      : yield* listServiceActions(range)
    yield* answerPage(json, { items: found.items.map(entryOf), next: found.next }, "actions")
  }, onMigratedDatabase)
).pipe(
  Command.withDescription(
    "List the actions of operators in a project, or those that concern all projects, the newest first"
  ),
  Command.withExamples([{ command: `${cli} audit list --project demo` }])
)

const entryOf = ({ action, actor, at, detail, target }: Entry) => ({ at, actor, action, target, detail })

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
      Argument.withDescription("The id of a record, a request or a trace, or an idempotency key, or its beginning")
    )
  },
  Effect.fn(function* ({ id, json, project }) {
    const items = yield* findRecords(Option.getOrNull(project), id)
    const exact = items.filter((item) => item.id === id)
    const [only, ...others] = exact.length > 0 ? exact : items
    if (only === undefined || others.length > 0) return yield* answerPage(json, { items, next: null }, "records")
    const history = yield* historyOf(yield* Flags.projectId(only.projectId), only)
    const { actions, commands, deliveries, events } = history
    const parts = [
      items,
      commands,
      actions.map(entryOf),
      events.map(({ id, occurredAt, type }) => ({ id, type, occurredAt })),
      deliveries.map(itemOf)
    ]
    const tables = parts.filter((part) => part.length > 0).map(tableOf)
    yield* answer(json, { items, next: null, ...history }, tables.join("\n\n"))
  }, onMigratedDatabase)
).pipe(
  Command.withDescription(
    "Find records, requests, traces and idempotency keys by an id or its beginning; of a single one, the commands with their API keys, the events and the deliveries"
  ),
  Command.withExamples([{ command: `${cli} find dlv_0193f0cbd4e57f70819203a4b5c6d7e8` }])
)
