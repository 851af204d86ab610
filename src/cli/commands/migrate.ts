import { Effect, Option } from "effect"
import { Command } from "effect/cli"
import { pauseAll } from "../../campaigns/CampaignControl.ts"
import { migrate as applyPending } from "../../sql/migrations/Migrations.ts"
import { plural } from "../../platform/Text.ts"
import { newOnce } from "../../project/Actions.ts"
import { mutations } from "../ActionCommand.ts"
import * as Flags from "../Flags.ts"
import { onNewDatabase } from "../OnDatabase.ts"
import { answer, cli, withProgress } from "../Output.ts"

export const migrate = Command.make(
  "migrate",
  {
    json: Flags.json,
    restored: Flags.toggle(
      "restored",
      "After a restore: pause all campaigns, which would send again what was sent since"
    )
  },
  Effect.fn(function* ({ json, restored }) {
    const pause = restored ? Effect.asSome(Effect.provide(pauseAll(newOnce), mutations)) : Effect.succeedNone
    const { applied, paused } = yield* onNewDatabase(
      Effect.flatMap(applyPending, (applied) => Effect.map(pause, (paused) => ({ applied, paused })))
    ).pipe(withProgress("Migrating"))
    const done =
      applied.length === 0
        ? "Nothing to do: every migration is applied"
        : applied.map((name) => `Applied ${name}`).join("\n")
    yield* answer(
      json,
      { applied, ...(Option.isSome(paused) ? { paused: paused.value } : {}) },
      Option.match(paused, {
        onNone: () => done,
        onSome: (campaigns) =>
          [
            done,
            `Paused ${plural(campaigns.length, "campaign", "campaigns")}`,
            ...campaigns.map(({ id, projectId }) => `  ${projectId} ${id}`)
          ].join("\n")
      })
    )
  })
).pipe(
  Command.withDescription("Apply the pending migrations"),
  Command.withExamples([
    { command: `${cli} migrate` },
    { command: `${cli} migrate --restored`, description: "After a restore, before a worker starts" },
    {
      command: `DATABASE_URL=postgres://… SECRET_KEY=… ${cli} migrate`,
      description: "Before a new version with MIGRATE_ON_START=false"
    }
  ])
)
