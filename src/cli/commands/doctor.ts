/** `doctor`: checks everything that the service depends on, and advises what to do. */
import { Effect, Record, References } from "effect"
import { Command } from "effect/cli"
import { SecretBox } from "../../secrets/SecretBox.ts"
import { Settings } from "../../platform/Settings.ts"
import * as Checks from "./doctor/Checks.ts"
import { failure, type Finding, type Judgement, ok, skipped } from "./doctor/Checks.ts"
import * as Work from "./doctor/Work.ts"
import * as Flags from "../Flags.ts"
import { onDatabase } from "../OnDatabase.ts"
import { answer, CommandFailed, described, oneLine, withProgress } from "../Output.ts"

const settings = Settings.pipe(
  Effect.as(ok("every variable is well formed")),
  Effect.provide(Settings.layer),
  Effect.catchCause(failure("Correct these variables; deploy/SETTINGS.md has a table of all."))
)

const keys = Checks.keys.pipe(
  Effect.provide(SecretBox.layerOfSettings),
  Effect.catchCause(failure("Restore the file, or set SECRET_KEY."))
)

const { moves, requests, tokens, work, workers } = Work
const ofRecords = { keys, workers, work, requests, tokens, moves }
const withoutRecords = Record.map(ofRecords, () => skipped)
const withoutDatabase = { pooler: skipped, migrations: skipped, clock: skipped, ...withoutRecords }

/** Checks of the database. A check is skipped if one on which it depends is not in order. */
const ofDatabase = Effect.gen(function* () {
  const database = yield* Checks.database
  const pooler = yield* Checks.pooler
  const migrations = database.status === "failed" ? skipped : yield* Checks.migrations
  const clock = database.status === "failed" ? skipped : yield* Checks.clock
  const records = migrations.status === "ok" ? yield* Effect.all(ofRecords) : withoutRecords
  return { database, pooler, migrations, clock, ...records }
}).pipe(
  onDatabase,
  Effect.catchCause((cause) => Effect.map(Checks.unreachable(cause), (database) => ({ database, ...withoutDatabase })))
)

/** Checks of Redis and of telemetry. The clients of both do not log, because the findings report their failures. */
const ofServices = Effect.all({ limiter: Checks.limiter, telemetry: Checks.telemetry }).pipe(
  Effect.provideService(References.MinimumLogLevel, "None")
)

const rest = Effect.map(Effect.all([ofDatabase, ofServices]), ([database, services]) => ({ ...database, ...services }))

const examine = Effect.gen(function* () {
  const judged = yield* settings
  const others: Record<string, Judgement> = judged.status === "ok" ? yield* Effect.provide(rest, Settings.layer) : {}
  return Object.entries({ settings: judged, ...others }).map(([check, judgement]): Finding => ({ check, ...judgement }))
})

export const doctor = Command.make(
  "doctor",
  { json: Flags.json },
  Effect.fn(function* ({ json }) {
    const findings = yield* withProgress("Checking")(examine)
    yield* answer(json, { findings }, findings.map(lines).join("\n"))
    const checks = findings.filter(({ status }) => status === "failed").map(({ check }) => check)
    if (checks.length > 0) return yield* new CommandFailed({ message: `Not in order: ${checks.join(", ")}` })
  })
).pipe(
  described(
    "Check settings, database, migrations, clock, keys, workers, what waits, keys that end soon, Redis and telemetry, and advise what to do. Exit status 1 if a check fails",
    { "": "", "DATABASE_URL=postgres://… SECRET_KEY=… --json": "For a script" }
  )
)

const lines = ({ advice, check, detail, status }: Finding) =>
  `${status.padEnd(8)} ${check.padEnd(12)} ${oneLine(detail)}${advice === null ? "" : `\n${" ".repeat(22)}${advice}`}`
