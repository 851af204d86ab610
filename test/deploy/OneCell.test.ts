/** The files for one cell in `deploy`: the balancer, and the role and database of the service. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import * as Http from "node:http"
import { join } from "node:path"
import { inject } from "vitest"
import { at, run } from "../cli/Cli.support.ts"
import { session } from "../faults/Projects.support.ts"
import { expectProblem, send } from "../faults/Requests.support.ts"
import { defer } from "../support/Finalizers.ts"
import { checkout, freePort, runToEnd, spawn, temporaryDirectory } from "../support/Process.ts"
import { pathOf, requires } from "../support/Programs.ts"
import { eventually } from "../support/Waiting.ts"

const folder = join(checkout, "deploy")

describe("the balancer of one cell", () => {
  requires("haproxy")

  it("is a valid configuration as it stands in the folder", async () => {
    const { code, stderr } = await runToEnd(pathOf("haproxy"), ["-c", "-f", join(folder, "haproxy.cfg")])
    assert.deepStrictEqual([code, stderr.includes("WARNING")], [0, false], stderr)
  })

  it("sends to processes that are ready, and answers with a problem while there is none", async () => {
    const [port, one, two] = [await freePort(), await freePort(), await freePort()]
    const file = join(await temporaryDirectory(), "haproxy.cfg")
    const config = readFileSync(join(folder, "haproxy.cfg"), "utf8")
      .replace("127.0.0.1:8000", `127.0.0.1:${port}`)
      .replace("127.0.0.1:3001", `127.0.0.1:${one}`)
      .replace("127.0.0.1:3002", `127.0.0.1:${two}`)
    await writeFile(file, config)
    spawn(pathOf("haproxy"), ["-db", "-f", file])
    const url = `http://127.0.0.1:${port}/`
    const answer = await eventually(async () => {
      const answer = await send(url)
      expectProblem(answer, 503, "service_unavailable")
      return answer
    })
    assert.deepInclude(answer.headers, { "retry-after": "1" })

    let isReady = true
    const server = Http.createServer(({ url }, response) => {
      response.writeHead(url === "/readyz" && !isReady ? 503 : 200).end("served")
    }).listen(two, "127.0.0.1")
    await once(server, "listening")
    defer(() => {
      server.closeAllConnections()
      server.close()
    })
    await eventually(async () => assert.strictEqual((await send(url)).text, "served"))
    isReady = false
    await eventually(async () => expectProblem(await send(url), 503, "service_unavailable"))
  })
})

it.live("the service migrates as the role that postgres.sql creates, which owns its database and nothing else", () =>
  Effect.gen(function* () {
    const name = `cell_${randomBytes(6).toString("hex")}`
    const text = readFileSync(join(folder, "postgres.sql"), "utf8")
      .replaceAll("developer_api", name)
      .replace(":'password'", "'secret'")
    const administrator = yield* Effect.promise(() => session(inject("postgresUrl")))
    const statements = text.replace(/^--.*$/gm, "").split(";")
    for (const statement of statements.slice(0, -1)) yield* Effect.promise(() => administrator(statement))
    yield* Effect.addFinalizer(() =>
      Effect.promise(async () => {
        await administrator(`DROP DATABASE ${name} WITH (FORCE)`)
        await administrator(`DROP ROLE ${name}`)
      })
    )
    const url = new URL(inject("postgresUrl"))
    Object.assign(url, { username: name, password: "secret", pathname: `/${name}` })
    const { status, stderr } = yield* run(["migrate"], { env: at(Redacted.make(url.href)) })
    assert.deepStrictEqual([status, stderr], [0, ""])
    const [role] = yield* Effect.promise(() =>
      administrator(`SELECT rolsuper, rolcreaterole, rolcreatedb, rolbypassrls FROM pg_roles WHERE rolname = '${name}'`)
    )
    assert.deepStrictEqual(role, { rolsuper: false, rolcreaterole: false, rolcreatedb: false, rolbypassrls: false })
  })
)
