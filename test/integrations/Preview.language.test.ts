/** Letter case in a database whose language has other letters: in Turkish the small form of I has no dot. */
import { PgClient } from "@effect/sql-pg"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Preview } from "../../src/integrations/Preview.ts"
import { migrate } from "../../src/platform/Migrations.ts"
import { makeDatabase } from "../support/TestDatabase.ts"
import { apply, contact, preview, projects, usual } from "./Preview.support.ts"

it.effect("a preview finds emails in any letter case in a database of any locale", () =>
  Effect.gen(function* () {
    const client = PgClient.layer({ url: yield* makeDatabase({ empty: true, language: "tr" }), maxConnections: 1 })
    const services = Layer.mergeAll(projects, Preview.layer).pipe(Layer.provideMerge(client))
    const answer = yield* Effect.gen(function* () {
      yield* migrate
      const stagedRecords = [contact("1", { mail: "ines@example.org" }), contact("2", { mail: "INES@EXAMPLE.ORG" })]
      yield* apply("p", { importProfile: usual, stagedRecords }, { clients: [{ id: "a", email: "INES@example.org" }] })
      return yield* preview("p")
    }).pipe(Effect.provide(services))
    assert.strictEqual(answer.duplicateCount, 1)
    assert.deepStrictEqual(answer.estimatedChanges, { create: 0, update: 1, skip: 1 })
  })
)
