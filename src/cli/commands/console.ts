/** `console`: prints a link that opens the operators' console once. */
import { Data, Effect, Option } from "effect"
import { Command } from "effect/cli"
import { SqlClient } from "effect/sql"
import { adminUrl, read } from "../../http/edge/AdminAddress.ts"
import { issue, signInPath } from "../../http/auth/OperatorSessions.ts"
import { Operator } from "../../operators/Audit.ts"
import { Settings } from "../../platform/Settings.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { answer, cli } from "../Output.ts"

class NoAdminPort extends Data.TaggedError("NoAdminPort") {
  override readonly message =
    "ADMIN_PORT is not set, or 0: the console has no known address. Set it for the service and for this command"
}

class NotRunning extends Data.TaggedError("NotRunning")<{ readonly dataDir: string }> {
  override get message() {
    return `No service with a console runs on DATA_DIR ${this.dataDir}: start it with \`npm start\``
  }
}

/**
 * Finds the address of the admin server in the settings, otherwise in the file that a service with an embedded database writes.
 */
const findServer = Effect.gen(function* () {
  const { adminHost, adminPort, dataDir, databaseUrl } = yield* Settings
  if (Option.isSome(adminPort) && adminPort.value !== 0) return adminUrl(adminHost, adminPort.value)
  if (Option.isSome(databaseUrl)) return yield* new NoAdminPort()
  const kept = yield* read(dataDir)
  if (Option.isNone(kept)) return yield* new NotRunning({ dataDir })
  // A killed service leaves its file behind, so the address is tried.
  return yield* Effect.tryPromise((signal) => fetch(kept.value, { method: "HEAD", signal })).pipe(
    Effect.timeout("2 seconds"),
    Effect.mapBoth({ onSuccess: () => kept.value, onFailure: () => new NotRunning({ dataDir }) })
  )
})

export const consoleLink = Command.make(
  "console",
  { json: Flags.json },
  Effect.fn(function* ({ json }) {
    const sql = yield* SqlClient.SqlClient
    const server = yield* findServer
    const { actor } = yield* Operator
    for (const { code, expiresAt } of yield* issue(sql, actor)) {
      const url = `${server}${signInPath}?code=${code}`
      yield* answer(json, { url, expiresAt }, `${url}\n\nThe link works once, until ${expiresAt.toISOString()}.`)
    }
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("Print a link to the console on the admin port. It works once, within 10 minutes"),
  Command.withExamples([{ command: `${cli} console` }])
)
