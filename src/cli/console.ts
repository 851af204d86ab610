/** `console`: a link to the operators' console. */
import { Data, Effect, Option } from "effect"
import { Command } from "effect/cli"
import { SqlClient } from "effect/sql"
import { issue, signInPath } from "../console/Links.ts"
import { Settings } from "../platform/Settings.ts"
import * as Flags from "./Flags.ts"
import { onMigratedDatabase } from "./OnDatabase.ts"
import { answer, cli } from "./Output.ts"

class NoAdminPort extends Data.TaggedError("NoAdminPort") {
  override readonly message =
    "ADMIN_PORT is not set, or 0: the console has no known address. Set it for the service and for this command"
}

/** Addresses that mean every one of the host: it is reached on loopback, too. */
const everywhere: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" }

export const consoleLink = Command.make(
  "console",
  { json: Flags.json },
  Effect.fn(function* ({ json }) {
    const { adminHost, adminPort } = yield* Settings
    const sql = yield* SqlClient.SqlClient
    if (Option.isNone(adminPort) || adminPort.value === 0) return yield* new NoAdminPort()
    const host = everywhere[adminHost] ?? adminHost
    const authority = `${host.includes(":") ? `[${host}]` : host}:${adminPort.value}`
    for (const { code, expiresAt } of yield* issue(sql)) {
      const url = `http://${authority}${signInPath}?code=${code}`
      yield* answer(json, { url, expiresAt }, `${url}\n\nThe link works once, until ${expiresAt.toISOString()}.`)
    }
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("Print a link to the console on the admin port, which works once, for 10 minutes"),
  Command.withExamples([{ command: `${cli} console` }])
)
