/** The command `token`: its input and output. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { scopes } from "../../src/api/Access.ts"
import { present } from "../../src/http/auth/Credentials.ts"
import { makeProject } from "../support/Projects.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import { cli, documentOf, failure } from "./Cli.support.ts"

const day = 86_400_000
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const tokenText = /dk_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}/
const unknownKey = failure(
  1,
  "There is no such key: its id is the 12 characters of the token between `dk_` and the next `_`"
)

const Issued = Schema.Struct({
  keyId: Schema.String,
  token: Schema.String,
  scopes: Schema.Array(Schema.String),
  expiresAt: Schema.String
})
const Keys = Schema.Struct({
  next: Schema.Null,
  items: Schema.Array(
    Schema.Struct({
      keyId: Schema.String,
      name: Schema.String,
      scopes: Schema.Array(Schema.String),
      memberId: Schema.NullOr(Schema.String),
      expiresAt: Schema.String,
      revokedAt: Schema.NullOr(Schema.String),
      lastUsedAt: Schema.NullOr(Schema.String),
      createdAt: Schema.String,
      state: Schema.Literals(["active", "ending", "expired", "revoked"])
    })
  )
})
const strictly = { onExcessProperty: "error" } as const
const decodeIssued = Schema.decodeUnknownSync(Issued, strictly)
const decodeKeys = Schema.decodeUnknownSync(Keys, strictly)

const issue = (project: string, ...flags: ReadonlyArray<string>) =>
  cli(["token", "issue", "--project", project, "--name", "ci", ...flags])
const issued = (project: string, ...flags: ReadonlyArray<string>) =>
  Effect.map(issue(project, "--json", ...flags), (ended) => decodeIssued(documentOf(ended)))
const keysOf = (project: string) =>
  Effect.map(cli(["token", "list", "--project", project, "--json"]), (ended) => decodeKeys(documentOf(ended)).items)

layer(TestDatabase.layer, { excludeTestServices: true })("the command `token`", (it) => {
  it.effect("issues a key, as JSON", function* () {
    yield* makeProject("issue")
    const before = Date.now()
    const key = yield* issued("issue", "--scope", "all", "--scope", "crm.clients.read")
    assert.strictEqual(present(key.token)?.keyId, key.keyId)
    assert.deepStrictEqual(key.scopes, scopes)
    assert.match(key.expiresAt, time)
    assert.approximately(Date.parse(key.expiresAt), before + 90 * day, 60_000)

    const flags = ["--scope", "messaging.read", "--scope=crm.clients.read", "--scope", "messaging.read"]
    const limited = yield* issued("issue", ...flags, "--expires-in", "36h", "--member", "anna")
    assert.deepStrictEqual(limited.scopes, ["messaging.read", "crm.clients.read"])
    assert.approximately(Date.parse(limited.expiresAt), before + 1.5 * day, 60_000)

    const [second, first] = yield* keysOf("issue")
    assert.strictEqual(first?.keyId, key.keyId)
    assert.match(second?.createdAt ?? "", time)
    assert.deepStrictEqual(second, {
      keyId: limited.keyId,
      name: "ci",
      scopes: limited.scopes,
      memberId: "anna",
      expiresAt: limited.expiresAt,
      revokedAt: null,
      lastUsedAt: null,
      createdAt: second?.createdAt ?? "",
      state: "ending"
    })
  })

  it.effect("issues a key, and says that its token is not shown again", function* () {
    yield* makeProject("text")
    const { status, stderr, stdout } = yield* issue("text", "--scope", "crm.deals.read", "--expires-in", "1d")
    assert.strictEqual(status, 0)
    assert.strictEqual(stderr, "")
    assert.match(stdout, tokenText)
    assert.include(stdout, "Scopes   crm.deals.read\n")
    assert.include(stdout, "it is not shown again")
  })

  it.effect("lists keys in a table, without their tokens", function* () {
    yield* makeProject("table")
    const empty = yield* cli(["token", "list", "--project", "table"])
    assert.deepStrictEqual(empty, { status: 0, stdout: "No keys\n", stderr: "" })
    const all = yield* issued("table", "--scope", "all", "--expires-in", "1ms")
    const one = yield* issued("table", "--scope", "crm.clients.read", "--member", "anna")
    const { status, stdout } = yield* cli(["token", "list", "--project", "table"])
    assert.strictEqual(status, 0)
    assert.notMatch(stdout, tokenText)
    assert.deepStrictEqual(
      stdout.split("\n").map((line) => line.split(/ {2,}/)),
      [
        ["KEY ID", "NAME", "STATE", "EXPIRES AT", "LAST USED AT", "MEMBER ID", "SCOPES"],
        [one.keyId, "ci", "active", one.expiresAt, "never", "anna", "crm.clients.read"],
        [all.keyId, "ci", "expired", all.expiresAt, "never", "-", "all"],
        [""]
      ]
    )
  })

  it.effect("revokes a key, also repeatedly", function* () {
    yield* makeProject("revoke")
    const { keyId } = yield* issued("revoke", "--scope", "all")
    const text = yield* cli(["token", "revoke", "--key", keyId])
    const [key] = yield* keysOf("revoke")
    assert.match(key?.revokedAt ?? "", time)
    const stdout = `Key ${keyId} is revoked since ${key?.revokedAt}\n`
    assert.deepStrictEqual(text, { status: 0, stdout, stderr: "" })
    const again = documentOf(yield* cli(["token", "revoke", "--key", keyId, "--json"]))
    assert.deepStrictEqual(again, { keyId, revokedAt: key?.revokedAt })
  })

  it.effect("rotates a key", function* () {
    yield* makeProject("rotate")
    const old = yield* issued("rotate", "--scope", "all", "--member", "anna", "--expires-in", "30d")
    const renewed = decodeIssued(documentOf(yield* cli(["token", "rotate", "--key", old.keyId, "--json"])))
    const now = Date.now()
    assert.notStrictEqual(renewed.keyId, old.keyId)
    assert.deepStrictEqual(renewed.scopes, old.scopes)
    assert.approximately(Date.parse(renewed.expiresAt), now + 30 * day, 60_000)
    const [second, first] = yield* keysOf("rotate")
    assert.deepStrictEqual([second?.keyId, second?.name, second?.memberId], [renewed.keyId, "ci", "anna"])
    assert.approximately(Date.parse(first?.expiresAt ?? ""), now + day, 60_000)

    const { status, stderr, stdout } = yield* cli(["token", "rotate", "--key", renewed.keyId, "--grace", "1ms"])
    assert.deepStrictEqual([status, stderr], [0, ""])
    assert.match(stdout, tokenText)
    assert.include(stdout, renewed.keyId)
    const expired = yield* cli(["token", "rotate", "--key", renewed.keyId])
    assert.deepStrictEqual(expired, failure(1, `Key ${renewed.keyId} has expired: issue a new one`))
  })

  it.effect("fails with one line, and issues no key", function* () {
    yield* makeProject("failures")
    yield* makeProject("others")
    yield* (yield* SqlClient.SqlClient)`
      INSERT INTO members (project_id, id, name, active) VALUES ('others', 'theirs', 'Theirs', true)`
    const revoked = yield* issued("failures", "--scope", "all")
    yield* cli(["token", "revoke", "--key", revoked.keyId])
    const all = ["--scope", "all"]
    const expectations = [
      [issue("failures", ...all, "--member", "bob"), 'The project has no member "bob"'],
      [issue("failures", ...all, "--member", "theirs"), 'The project has no member "theirs"'],
      [issue("failures", ...all, "--member", "left"), 'Member "left" is not active, so no key can be issued for them'],
      [issue("failures", ...all, "--expires-in", `${(366 * day) / 1_000 + 1}s`), "A key can live for 366 days at most"],
      [issue("failures", ...all, "--expires-in", "365000d"), "A key can live for 366 days at most"],
      [cli(["token", "rotate", "--key", revoked.keyId]), `Key ${revoked.keyId} is revoked: issue a new one`]
    ] as const
    for (const [command, line] of expectations) assert.deepStrictEqual(yield* command, failure(1, line))
    yield* issued("failures", ...all, "--expires-in", "366d")
    assert.lengthOf(yield* keysOf("failures"), 2)
  })

  it.effect("does not print an argument that may be a token", function* () {
    yield* makeProject("repeat")
    const { token } = yield* issued("repeat", "--scope", "all")
    for (const key of [token, "nope", "000000000000"]) {
      assert.deepStrictEqual(yield* cli(["token", "revoke", "--key", key]), unknownKey)
    }
    assert.deepStrictEqual(yield* cli(["token", "rotate", "--key", token, "--json"]), unknownKey)
  })
})
