/** Commands on a large project beside a running service: a file of 100,000 clients, and a deletion that is killed. */
import { assert } from "@effect/vitest"
import { writeFile } from "node:fs/promises"
import { it } from "vitest"
import { spawn, startService, temporaryDirectory } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { database, project, serviceEnv, session, unlimited } from "./Projects.support.ts"
import { createClient, expectProblem, listClients, stream } from "./Requests.support.ts"
import { openScene, testMessage } from "./Messages.support.ts"

const databaseUrl = await database()

it("a project file of 100,000 clients has writes of its project wait or answer 503, and affects no other project", async () => {
  const { id, post, provider, token } = await openScene(databaseUrl)
  const message = testMessage("during-the-file", "telegram")
  const other = await project(databaseUrl, { project: { rateLimits: unlimited } })
  const service = await startService({ env: serviceEnv(databaseUrl) })
  assert.strictEqual((await createClient(service.url, token, "before-the-file", "Known")).status, 201)

  const clients = Array.from({ length: 100_000 }, (_, n) => ({ id: `client-${n}`, displayName: `Client ${n}` }))
  const file = `${await temporaryDirectory()}/project.json`
  await writeFile(file, JSON.stringify({ project: { id, name: id, rateLimits: unlimited }, clients }))
  const others = stream(2, (n) => createClient(service.url, other, `of-another-project-${n}`, "Other"))
  const writes = stream(2, (n) => createClient(service.url, token, `during-the-file-${n}`, "New"))
  const apply = spawn(process.execPath, ["src/cli.ts", "project", "apply", file], serviceEnv(databaseUrl))
  await eventually(() => assert.isTrue(writes.answers.some(({ status }) => status === 503)))

  // The file is still being applied.
  assert.isFalse(apply.hasExited())
  const [replayed, read, sent] = await Promise.all([
    createClient(service.url, token, "before-the-file", "Known"),
    listClients(service.url, token),
    post(service, message)
  ])
  assert.deepStrictEqual([replayed.status, replayed.headers["idempotent-replayed"]], [201, "true"])
  assert.strictEqual(read.status, 200)
  if (sent.status !== 200) {
    expectProblem(sent, 503, "service_unavailable")
    assert.lengthOf(provider.calls, 0)
  }
  await Promise.all([apply.exited, others.stop()])
  await writes.stop()
  assert.strictEqual((await apply.exited).code, 0, apply.stderr())

  assert.deepStrictEqual([others.failures, others.kinds()], [[], ["201"]])
  assert.deepStrictEqual(writes.kinds(), ["201", "503 service_unavailable"])
  const refused = writes.answers.filter(({ status }) => status === 503)
  for (const answer of refused) assert.match(answer.text, /while a project file is applied/)
  assert.strictEqual((await post(service, message)).status, 200)
  assert.lengthOf(provider.calls, 1)
}, 120_000)

/** Rows of each table. */
const rows = 20_000

const id = "leaving"

/** Statements that fill the project: with what a deletion removes first, and with what it removes later. */
const filling = [
  `INSERT INTO events (project_id, id, type, occurred_at, data, traceparent)
   SELECT '${id}', 'e' || n, 'crm.deal.created.v1', now(), '{}', '' FROM generate_series(1, ${rows}) n`,
  `INSERT INTO clients (project_id, id, display_name, tags, status, version, created_at, updated_at)
   SELECT '${id}', 'c' || n, 'Client', '{}', 'active', 1, now(), now() FROM generate_series(1, ${rows}) n`,
  `UPDATE clients SET merged_into_client_id = 'c1', status = 'archived', archived_at = now() WHERE id IN ('c2', 'c3')`
]

it("project delete removes a large project beside a running service, and continues after it was killed", async () => {
  const token = await project(databaseUrl, { project: { id, rateLimits: unlimited } })
  const other = await project(databaseUrl, { project: { rateLimits: unlimited } })
  const sql = await session(databaseUrl)
  for (const text of filling) await sql(text)
  const service = await startService({ env: serviceEnv(databaseUrl) })
  assert.strictEqual((await listClients(service.url, token)).status, 200)

  const others = stream(2, (n) => createClient(service.url, other, `of-another-project-${n}`, "Other"))
  const command = ["src/cli.ts", "project", "delete", "--project", id, "--confirm", id, "--json"]
  const first = spawn(process.execPath, command, serviceEnv(databaseUrl))
  const count = async (table: string) =>
    Number((await sql(`SELECT count(*) FROM ${table} WHERE project_id = '${id}'`))[0]?.["count"])
  await eventually(async () => assert.isBelow(await count("events"), rows))
  first.kill("SIGKILL")
  await first.exited
  const audited = async () =>
    (await sql(`SELECT action FROM service_audit WHERE target = '${id}' ORDER BY id`)).map(({ action }) => action)
  assert.deepStrictEqual(await audited(), ["project.delete.begin"])
  await eventually(async () => expectProblem(await listClients(service.url, token), 401, "credential_invalid"))
  assert.isAbove(await count("clients"), 0)

  const second = spawn(process.execPath, command, serviceEnv(databaseUrl))
  assert.deepStrictEqual([(await second.exited).code, second.stderr()], [0, ""])
  await others.stop()
  assert.deepStrictEqual([others.failures, others.kinds()], [[], ["201"]])
  for (const table of ["projects", "clients", "events", "api_keys"]) {
    assert.strictEqual(await count(table), 0, table)
  }
  assert.include(second.stdout(), `"projectId": "${id}"`)
  assert.deepStrictEqual(await audited(), ["project.delete.begin", "project.delete.begin", "project.delete"])
}, 600_000)
