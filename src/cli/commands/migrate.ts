import { Effect } from "effect"
import { Command } from "effect/cli"
import { migrate as applyPending } from "../../platform/database/Migrations.ts"
import * as Flags from "../Flags.ts"
import { onDatabase } from "../OnDatabase.ts"
import { answer, cli, withProgress } from "../Output.ts"

export const migrate = Command.make(
  "migrate",
  { json: Flags.json },
  Effect.fn(function* ({ json }) {
    const applied = yield* onDatabase(applyPending).pipe(withProgress("Migrating"))
    yield* answer(
      json,
      { applied },
      applied.length === 0
        ? "Nothing to do: every migration is applied"
        : applied.map((name) => `Applied ${name}`).join("\n")
    )
  })
).pipe(
  Command.withDescription("Apply the pending migrations"),
  Command.withExamples([
    { command: `${cli} migrate` },
    {
      command: `DATABASE_URL=postgres://… SECRET_KEY=… ${cli} migrate`,
      description: "Before a new version with MIGRATE_ON_START=false"
    }
  ])
)
