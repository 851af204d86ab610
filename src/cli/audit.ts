/** `audit`: the actions of operators. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { Audit, listedAtMost } from "../platform/Audit.ts"
import * as Flags from "./Flags.ts"
import { onMigratedDatabase } from "./OnDatabase.ts"
import { answer, cli, table } from "./Output.ts"

const list = Command.make(
  "list",
  { json: Flags.json, project: Flags.project },
  Effect.fn(
    function* ({ json, project }) {
      const audit = yield* Audit
      const entries = yield* audit.list(yield* Flags.projectId(project))
      const items = entries.map(({ action, actor, at, detail, target }) => ({ at, actor, action, target, detail }))
      const rows = items.map(({ action, actor, at, detail, target }) => [
        at,
        actor,
        action,
        target,
        JSON.stringify(detail)
      ])
      yield* answer(json, { items }, items.length === 0 ? "No actions" : table([head, ...rows]))
    },
    (command) => command.pipe(Effect.provide(Audit.layer), onMigratedDatabase)
  )
).pipe(
  Command.withDescription(`List the actions of operators in a project, newest first, at most ${listedAtMost}`),
  Command.withExamples([{ command: `${cli} audit list --project demo` }])
)

export const audit = Command.make("audit").pipe(
  Command.withDescription("List the actions of operators, in commands and in the console"),
  Command.withSubcommands([list])
)

const head = ["AT", "ACTOR", "ACTION", "TARGET", "DETAIL"]
