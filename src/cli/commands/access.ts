import { Duration, Effect, Option, Redacted } from "effect"
import { Command, Flag } from "effect/cli"
import { SqlClient } from "effect/sql"
import { scopes } from "../../api/Access.ts"
import { text } from "../../api/schema/Fields.ts"
import {
  type ApiKey,
  defaultLifetime,
  type IssuedKey,
  issueKey,
  listKeys,
  revokeKey,
  rotateKey
} from "../../http/auth/ApiKeys.ts"
import { Operator, recordDone } from "../../operating/Audit.ts"
import { decodeProjectId } from "../../operating/Refusals.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { answer, answerPage, CommandFailed, described } from "../Output.ts"
import { adminUrl, read } from "../../http/edge/AdminAddress.ts"
import { issue as issueLinks, signInPath } from "../../http/auth/OperatorSessions.ts"
import { Settings } from "../../platform/Settings.ts"

const issue = Command.make(
  "issue",
  {
    ...Flags.ofProject,
    name: Flags.decodedFlag("name", text(1, 160), "NAME", "The purpose of the key (required)"),
    scopes: Flag.Literals("scope", [...scopes, "all"]).pipe(
      Flag.withMetavar("SCOPE"),
      Flag.withDescription("A scope of the key (required): repeat the flag for each scope, or give all"),
      Flag.atLeast(1)
    ),
    expiresIn: Flags.duration("expires-in", "Lifetime of the key, at most 366d; 90d if not given").pipe(
      Flag.withDefault(defaultLifetime)
    ),
    member: Flags.filter(Flags.id("member", "Binds the key to an active member of the project"))
  },
  Effect.fn(function* ({ expiresIn, json, member, name, project, ...given }) {
    const projectId = yield* decodeProjectId(project)
    const key = yield* issueKey({
      projectId,
      name,
      scopes: given.scopes.includes("all") ? scopes : given.scopes.filter((scope) => scope !== "all"),
      expiresIn,
      member
    })
    yield* recordDone(projectId, { action: "key.issue", target: key.keyId, detail: { name, scopes: key.scopes } })
    yield* answer(json, document(key), shown(key))
  }, onMigratedDatabase)
).pipe(
  described("Issue a key and show its token, which is not shown again", {
    "--project demo --name ci --scope all": "A key with all eleven scopes",
    "--project demo --name reader --scope crm.clients.read --expires-in 30d": "A key that reads, for a month"
  })
)

const list = Command.make(
  "list",
  { ...Flags.ofProject, ...Flags.range },
  Effect.fn(function* ({ json, project, ...range }) {
    yield* answerPage(json, yield* listKeys(yield* decodeProjectId(project), range), "keys", { columnsOf })
  }, onMigratedDatabase)
).pipe(
  described("List the keys of a project, the newest first; a key that ends within 14 days is `ending`", {
    "--project demo --json": ""
  })
)

const key = Flag.String("key").pipe(
  Flag.withMetavar("KEY"),
  Flag.withDescription("The key's id (required): the 12 characters of its token between `dk_` and the next `_`")
)

const revoke = Command.make(
  "revoke",
  { json: Flags.json, key },
  Effect.fn(function* ({ json, key }) {
    const revoked = yield* revokeKey(key)
    yield* answer(json, revoked, `Key ${revoked.keyId} is revoked since ${revoked.revokedAt.toISOString()}`)
  }, onMigratedDatabase)
).pipe(described("Revoke a key: its token is refused from the next second on", { "--key 4fGh8Kp2LmQx": "" }))

const rotate = Command.make(
  "rotate",
  {
    json: Flags.json,
    key,
    grace: Flags.duration("grace", "Time for which the old token is still accepted; 24h if not given").pipe(
      Flag.withDefault(Duration.hours(24))
    )
  },
  Effect.fn(function* ({ grace, json, key }) {
    const renewed = yield* rotateKey(key, grace)
    const note = `The old key ${key} is accepted for ${Duration.format(grace)} more, or until it expires.`
    yield* answer(json, document(renewed), `${shown(renewed)}\n${note}`)
  }, onMigratedDatabase)
).pipe(
  described("Issue a new key with the rights and lifetime of an old key, which ends after the grace period", {
    "--key 4fGh8Kp2LmQx": "",
    "--key 4fGh8Kp2LmQx --grace 1m": "End the old key in a minute"
  })
)

export const token = Command.make("token").pipe(
  Command.withDescription("Issue, list, revoke and rotate the API keys of a project"),
  Command.withSubcommands([issue, list, revoke, rotate])
)

const document = ({ keyId, token, ...key }: IssuedKey) => ({ keyId, token: Redacted.value(token), ...key })

const shown = ({ expiresAt, keyId, scopes, token }: IssuedKey) => `Token    ${Redacted.value(token)}
Key      ${keyId}
Scopes   ${scopes.join(", ")}
Expires  ${expiresAt.toISOString()}

Keep the token now: it is not shown again.`

const columnsOf = (key: ApiKey) => ({
  keyId: key.keyId,
  name: key.name,
  state: key.state,
  expiresAt: key.expiresAt,
  lastUsedAt: key.lastUsedAt ?? "never",
  memberId: key.memberId,
  scopes: key.scopes.length === scopes.length ? "all" : key.scopes
})

const noAdminPort =
  "ADMIN_PORT is not set, or 0: the console has no known address. Set it for the service and for this command"

/** Finds the address of the admin server in the settings, otherwise in the file that a service with an embedded database writes. */
const findServer = Effect.gen(function* () {
  const { adminHost, adminPort, dataDir, databaseUrl } = yield* Settings
  if (Option.isSome(adminPort) && adminPort.value !== 0) return adminUrl(adminHost, adminPort.value)
  if (Option.isSome(databaseUrl)) return yield* new CommandFailed({ message: noAdminPort })
  const notRunning = new CommandFailed({
    message: `No service with a console runs on DATA_DIR ${dataDir}: start it with \`npm start\``
  })
  const kept = yield* read(dataDir)
  if (Option.isNone(kept)) return yield* notRunning
  // A killed service leaves its file behind, so the address is tried.
  return yield* Effect.tryPromise((signal) => fetch(kept.value, { method: "HEAD", signal })).pipe(
    Effect.timeout("2 seconds"),
    Effect.mapBoth({ onSuccess: () => kept.value, onFailure: () => notRunning })
  )
})

/** Prints a link that opens the operators' console once. */
export const consoleLink = Command.make(
  "console",
  { json: Flags.json },
  Effect.fn(function* ({ json }) {
    const sql = yield* SqlClient.SqlClient
    const server = yield* findServer
    const { actor } = yield* Operator
    for (const { code, expiresAt } of yield* issueLinks(sql, actor)) {
      const url = `${server}${signInPath}?code=${code}`
      yield* answer(json, { url, expiresAt }, `${url}\n\nThe link works once, until ${expiresAt.toISOString()}.`)
    }
  }, onMigratedDatabase)
).pipe(described("Print a link to the console on the admin port. It works once, within 10 minutes", { "": "" }))
