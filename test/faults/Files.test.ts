/** A project file of 100,000 clients while its project, and another, are in use. */
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { spawn, startService, temporaryDirectory } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { taken } from "../contract/Messages.support.ts"
import { writeFile } from "node:fs/promises"
import { database, project, serviceEnv, unlimited } from "./Projects.support.ts"
import { createClient, expectProblem, listClients, stream } from "./Requests.support.ts"
import { openProject, sendMessage } from "./Sends.support.ts"

const databaseUrl = await database()

describe("a project file of 100,000 clients", () => {
  it("has writes of its project wait or answer 503, calls no provider for them, and leaves other projects unaffected", async () => {
    const id = "with-a-large-file"
    const { provider, token } = await openProject(databaseUrl, taken, { project: { id, rateLimits: unlimited } })
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
      sendMessage(service.url, token, "during-the-file")
    ])
    assert.deepStrictEqual([replayed.status, replayed.headers["idempotent-replayed"]], [201, "true"])
    assert.strictEqual(read.status, 200)
    if (sent.status !== 200) {
      expectProblem(sent, 503, "service_unavailable")
      assert.lengthOf(provider.hits, 0)
    }
    await Promise.all([apply.exited, others.stop()])
    await writes.stop()
    assert.strictEqual((await apply.exited).code, 0, apply.stderr())

    assert.deepStrictEqual([others.failures, others.kinds()], [[], ["201"]])
    assert.deepStrictEqual(writes.kinds(), ["201", "503 service_unavailable"])
    const refused = writes.answers.filter(({ status }) => status === 503)
    for (const answer of refused) assert.match(answer.text, /while a project file is applied/)
    assert.strictEqual((await sendMessage(service.url, token, "during-the-file")).status, 200)
    assert.lengthOf(provider.hits, 1)
  }, 120_000)
})
