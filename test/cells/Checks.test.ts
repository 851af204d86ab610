/** The rights that a move needs of the roles of both sides (contract §18). */
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { check } from "../../src/cells/Checks.ts"
import type { Sides } from "../../src/cells/Sides.ts"
import type { SealedTable } from "../../src/platform/secrets/SealedValues.ts"
import { makeProject } from "../support/Projects.ts"
import { secretBox } from "../support/SecretBox.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

/** Both sides of a move on one database. */
const sidesOf = Effect.fnUntraced(function* (name: string) {
  const projectId = yield* makeProject(name)
  const sql = yield* SqlClient.SqlClient
  const sourceUrl = Redacted.make("")
  const sides: Sides = {
    projectId,
    source: sql,
    target: sql,
    name: "",
    sourceUrl,
    sourceId: "source",
    targetId: "target"
  }
  return { sql, sides }
})

/** A table with one value, which no key opens. */
const foreign: SealedTable = {
  kind: "webhook",
  page: () => Effect.succeed([{ projectId: "other", id: "ins", version: 1, sealed: new Uint8Array(64) }]),
  replace: () => Effect.succeed(0)
}
const box = secretBox(Buffer.alloc(32).toString("base64"))

layer(TestDatabase.layer)("what a move needs", (it) => {
  it.effect("is checked before anything is made: every right that the roles lack is named", () =>
    Effect.gen(function* () {
      const { sides, sql } = yield* sidesOf("checked")
      // The role and its session end with the transaction, which fails.
      const refused = Effect.gen(function* () {
        yield* sql`CREATE ROLE move_checked`
        yield* sql`GRANT SELECT ON ALL TABLES IN SCHEMA public TO move_checked`
        yield* sql`SET LOCAL ROLE move_checked`
        yield* check(sides, [], { state: null, peer: null, isDeleted: false })
      }).pipe(sql.withTransaction, Effect.flip, Effect.provide(box))
      assert.includeMembers((yield* refused).message.split("\n"), [
        "The role at the source needs REPLICATION: ALTER ROLE … REPLICATION",
        "The role at the source needs CREATE on the database: GRANT CREATE ON DATABASE …",
        "The role at the source has to own the tables: ALTER TABLE … OWNER TO …",
        "The role at the target needs pg_create_subscription (PostgreSQL 16), or has to be a superuser (15)",
        "The role at the target needs CREATE on the database: GRANT CREATE ON DATABASE …"
      ])
    })
  )

  it.effect("is a key that opens the secrets of both sides", () =>
    Effect.gen(function* () {
      const { sides } = yield* sidesOf("keys")
      const refused = yield* Effect.flip(check(sides, [foreign], { state: null, peer: null, isDeleted: false }))
      assert.includeMembers(
        refused.message.split("\n"),
        ["source", "target"].map(
          (side) => `SECRET_KEY opens none of the 1 secrets at the ${side}: cells share SECRET_KEY`
        )
      )
    }).pipe(Effect.provide(box))
  )
})
