/** The rights that a move needs of the roles of both sides (contract §18). */
import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { check } from "../../src/cells/Checks.ts"
import type { Sides } from "../../src/cells/Sides.ts"
import { makeProject } from "../support/Projects.ts"
import { secretBox } from "../support/SecretBox.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

layer(TestDatabase.layer)("what a move needs", (it) => {
  it.effect("is checked before anything is made: every right that the roles lack is named", () =>
    Effect.gen(function* () {
      const projectId = yield* makeProject("checked")
      const sql = yield* SqlClient.SqlClient
      const sides: Sides = {
        projectId,
        source: sql,
        target: sql,
        name: "",
        sourceUrl: Redacted.make(""),
        sourceId: "source",
        targetId: "target"
      }
      // The role and its session end with the transaction, which fails.
      const refused = Effect.gen(function* () {
        yield* sql`CREATE ROLE move_checked`
        yield* sql`GRANT SELECT ON ALL TABLES IN SCHEMA public TO move_checked`
        yield* sql`SET LOCAL ROLE move_checked`
        yield* check(sides, [], { state: null, peer: null, isDeleted: false })
      }).pipe(sql.withTransaction, Effect.flip, Effect.provide(secretBox(Buffer.alloc(32).toString("base64"))))
      assert.includeMembers((yield* refused).message.split("\n"), [
        "The role at the source needs REPLICATION: ALTER ROLE … REPLICATION",
        "The role at the source needs CREATE on the database: GRANT CREATE ON DATABASE …",
        "The role at the source has to own the tables: ALTER TABLE … OWNER TO …",
        "The role at the target needs pg_create_subscription (PostgreSQL 16), or has to be a superuser (15)",
        "The role at the target needs CREATE on the database: GRANT CREATE ON DATABASE …"
      ])
    })
  )
})
