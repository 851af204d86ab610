/** A batch of 20,000 records: written in portions, and compared with as many clients by a statement that is not quadratic. */
import { assert, layer } from "../../support/Vitest.ts"
import { Effect, Layer, Redacted } from "effect"
import { clients, DatabaseUrl } from "../../../src/sql/Connections.ts"
import { applyProject } from "../../../src/project/Projects.ts"
import { TestServer } from "../../support/TestServer.ts"
import type { StagedRecord } from "./Preview.model.support.ts"
import { contact, key, usual } from "./Preview.support.ts"

const size = 20_000

/** Returns a record. A tenth are deals. The contacts match clients by id or by email, or none; a seventh share one phone. */
const recordAt = (index: number): StagedRecord =>
  index % 10 === 9
    ? {
        entityType: "deal",
        externalId: `${index}`,
        fields: { title: `Deal ${index}`, amount: index % 50 === 9 ? "many" : index }
      }
    : contact(index % 3 === 0 ? `ext-${index}` : `new-${index}`, {
        name: index % 2 === 0 ? `Client ${index}` : "Somebody else",
        tel: index % 7 === 0 ? "+4915100000000" : `+4915${index % 3 === 2 ? 3 : 2}${10_000_000 + index}`,
        ...(index % 3 === 1 ? { mail: `User${index}@Example.org` } : {}),
        labels: ["b", "a"],
        "\u{1f600}": index
      })
const stagedRecords = Array.from({ length: size }, (_, index) => recordAt(index))

const expected = () => {
  const found = { deals: 0, duplicates: 0, matched: 0, differing: 0 }
  let phoneSeen = false
  for (let index = 0; index < size; index++) {
    if (index % 10 === 9) {
      found.deals++
      continue
    }
    const shares = index % 7 === 0
    if (shares && phoneSeen) found.duplicates++
    else if (index % 3 !== 2) {
      found.matched++
      // Every client has its own phone and its email in lower case.
      if (shares || index % 2 !== 0 || index % 3 === 1) found.differing++
    }
    phoneSeen ||= shares
  }
  return found
}

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("20,000 staged records", (it) => {
  it.effect("are previewed in time without planner statistics of their project", function* () {
    const { databaseUrl, issue, seed, send, sql } = yield* TestServer
    // Like the command, on a connection with a longer statement timeout.
    const operator = Layer.provide(clients.operator, Layer.succeed(DatabaseUrl, Redacted.make(databaseUrl)))
    const apply = (text: string) => applyProject(text).pipe(Effect.provide([operator, key]))
    const installations = [{ id: "ins", name: "Shop", importProfile: usual, stagedRecords }]
    const text = JSON.stringify({ project: { id: "big", name: "Big" }, installations })

    // The statistics are those of another project, so the planner expects at most one row of this one.
    yield* seed({
      clients: Array.from({ length: 300 }, (_, index) => ({
        id: `${index}`,
        displayName: "A",
        externalId: `${index}`
      })),
      installations: [{ id: "ins", name: "Shop", importProfile: usual, stagedRecords: stagedRecords.slice(0, 100) }]
    })
    for (const table of ["clients", "staged_records", "staged_contacts"]) {
      yield* sql`ALTER TABLE ${sql(table)} SET (autovacuum_enabled = off)`
      yield* sql`ANALYZE ${sql(table)}`
    }
    yield* apply(text)
    yield* sql`
      INSERT INTO clients (project_id, id, display_name, email, phone, tags, external_id, status, version, created_at,
        updated_at)
      SELECT 'big', 'cli_' || n, 'Client ' || n, 'user' || n || '@example.org', '+49152' || 10000000 + n, '{a,b}',
        'ext-' || n, 'active', 1, now(), now()
      FROM generate_series(0, ${size - 1}::integer) AS n`

    const request = {
      method: "POST",
      path: "/api/v1/developer/integrations/ins/preview",
      token: yield* issue("big", { scopes: ["integrations.operations.read"] })
    }
    const answer = yield* send(request)
    const { deals, differing, duplicates, matched } = expected()
    const skip = duplicates + matched - differing
    assert.strictEqual(answer.status, 200, answer.text)
    assert.deepInclude(answer.json, {
      counts: { contact: size - deals, organization: 0, lead: 0, deal: deals, task: 0, activity: 0, note: 0 },
      duplicateCount: duplicates,
      unsupportedFields: [
        { entityType: "contact", externalField: "\u{1f600}", reason: "not_mapped", count: 18_000 },
        { entityType: "deal", externalField: "amount", reason: "unsupported_type", count: 400 }
      ],
      estimatedChanges: { create: size - differing - skip, update: differing, skip }
    })

    // The same file again rewrites no record.
    const written = sql`
      SELECT count(*), min(xmin::text), max(xmin::text) FROM (
        SELECT xmin FROM staged_records WHERE project_id = 'big'
        UNION ALL SELECT xmin FROM staged_contacts WHERE project_id = 'big'
      ) AS record`
    const before = yield* written
    const { unchanged } = yield* apply(text)
    assert.deepInclude(unchanged, { installations: 1 })
    assert.deepStrictEqual(yield* written, before)
    assert.strictEqual((yield* send(request)).text, answer.text)
  })
})
