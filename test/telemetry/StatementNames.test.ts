import { assert, describe, it } from "@effect/vitest"
import { makeStatementNames } from "../../src/telemetry/Otlp.ts"

const nameOf = makeStatementNames()

describe("the name of a statement", () => {
  const mutation = `WITH command AS MATERIALIZED (SELECT * FROM projects OFFSET 0), decided AS (SELECT * FROM command),
    capacity AS (UPDATE projects SET active_clients = active_clients + 1),
    claimed AS (INSERT INTO idempotency_keys (key) SELECT key FROM decided ON CONFLICT DO NOTHING)`
  for (const [title, text, summary] of [
    ["is its verb and table", `\n  SELECT "id" FROM "clients" WHERE id = $1`, "SELECT clients"],
    [
      "is the table of a mutation, not those beside it",
      `${mutation}, created AS (INSERT INTO deals VALUES (1)) SELECT 1`,
      "INSERT deals"
    ],
    ["is what is changed, although nothing else is", `${mutation} SELECT ord FROM decided`, "UPDATE projects"],
    [
      "is the first change",
      "WITH gone AS (DELETE FROM notes RETURNING id) UPDATE deals SET version = 2",
      "DELETE notes"
    ],
    ["is no lock", "SELECT id FROM ONLY_ONE FOR NO KEY UPDATE SKIP LOCKED", "SELECT ONLY_ONE"],
    ["is no lock of some tables", "SELECT FROM deals FOR UPDATE OF deals", "SELECT deals"],
    [
      "is the insert of an upsert",
      "INSERT INTO channels VALUES (1) ON CONFLICT (id) DO UPDATE SET a = 1",
      "INSERT channels"
    ],
    ["is no common table expression", "WITH a (x) AS (SELECT 1) SELECT FROM a JOIN deals ON true", "SELECT deals"],
    [
      "is the table that a function is joined with",
      "SELECT FROM unnest($1) AS key LEFT JOIN deals ON true",
      "SELECT deals"
    ],
    ["is no word of an expression", "SELECT extract(epoch FROM at), a IS DISTINCT FROM b FROM tasks", "SELECT tasks"],
    ["is the verb where no table is", "COMMIT", "COMMIT"]
  ] as const) {
    it(title, () => {
      for (let times = 0; times < 2; times++) assert.strictEqual(nameOf(text), summary)
    })
  }
})
