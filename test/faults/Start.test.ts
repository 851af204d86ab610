/** The start of the service: output, logs, roles and ports (contract §13 to §15). */
import { Schema } from "effect"
import { mkdir, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { defer } from "../support/Finalizers.ts"
import {
  ended,
  freePort,
  inGoodOrder,
  launchService,
  residentMebibytes,
  runToEnd,
  type Service,
  spawn,
  startService,
  temporaryDirectory
} from "../support/Process.ts"
import { assertMatches } from "../support/Matches.ts"
import { database, project, serviceEnv } from "./Projects.support.ts"
import { bearer, clients, createClient, expectProblem, listClients, send } from "./Requests.support.ts"
import { eventually } from "../support/Waiting.ts"
import manifest from "../../package.json" with { type: "json" }

const databaseUrl = await database()
const token = await project(databaseUrl)

const start = (env: Readonly<Record<string, string>> = {}, ...args: ReadonlyArray<string>) =>
  startService({ env: { ...serviceEnv(databaseUrl), ...env }, args })

/** Starts a service that exits by itself; returns its exit code and output. */
const fail = async (env: Readonly<Record<string, string>>, ...args: ReadonlyArray<string>) => {
  const running = launchService({ env, args })
  const { code } = await running.exited
  return { code, stdout: running.stdout(), lines: running.stderr().trimEnd().split("\n") }
}

const expectRefused = async (url: string) => {
  const failure: unknown = await send(url).catch((error: unknown) => error)
  assert.match(String(failure), /ECONNREFUSED/)
}

describe("the first start on an empty DATA_DIR", () => {
  it("prints a token, three working curl lines and a link to the console, and the second start only the addresses", async () => {
    const directory = `${await temporaryDirectory()}/not/yet/there`
    const port = await freePort()
    const env = { DATA_DIR: directory, PORT: String(port) }
    const first = await startService({ env })
    const printed = first.stdout()
    const tokens = new Set(printed.match(/dk_\w+/g))
    assert.strictEqual(tokens.size, 1)
    const [key = ""] = tokens
    assert.match(key, /^dk_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}$/)
    assert.include(printed, `base URL  ${first.url}`)
    assert.strictEqual(printed.trimEnd().split("\n").at(-1), `listening on ${first.url}`)
    assert.notInclude(first.stderr(), key)

    const lines = printed.split("\n").filter((line) => line.startsWith("curl "))
    assert.lengthOf(lines, 3)
    for (const line of lines) {
      const { code, stdout } = await runToEnd("bash", ["-c", line])
      assertMatches({ code, stdout }, { code: 0, stdout: /^HTTP\/1\.1 20[01] / })
    }
    const demo = await listClients(first.url, key)
    assertMatches(demo.json, { items: [{ displayName: "Robin Example" }] })

    // The line for the tour of the README sets its two variables.
    const tour = /^export .*$/m.exec(printed)?.[0] ?? ""
    const listed = await runToEnd("bash", [
      "-c",
      `${tour}; curl -s "$API/crm/clients?limit=1" -H "Authorization: Bearer $TOKEN"`
    ])
    assert.strictEqual(listed.stdout, demo.text)

    const admin = `http://127.0.0.1:${port + 1}`
    const link = new RegExp(`^console at (${admin}/console/enter\\?code=\\S+)$`, "m").exec(printed)?.[1] ?? ""
    assert.strictEqual((await send(link)).status, 200)
    const command = await runToEnd(process.execPath, ["src/cli.ts", "console"], { DATA_DIR: directory })
    assert.match(command.stdout, new RegExp(`^${admin}/console/enter\\?code=\\S+\n`))
    assert.deepStrictEqual(await first.stop(), inGoodOrder)
    const afterwards = await runToEnd(process.execPath, ["src/cli.ts", "console"], { DATA_DIR: directory })
    assertMatches(afterwards, { code: 1, stdout: "", stderr: /^No service with a console runs on DATA_DIR / })

    // Its usual port for the console is taken.
    const other = createServer().listen(port + 1, "127.0.0.1")
    defer(() => other.close())
    const second = await startService({ env })
    const found =
      /^reference at (\S+)\/docs\nconsole at (http:\/\/127\.0\.0\.1:\d+)\/console\nanother token by: npm run [^\n]+\nlistening on (\S+)\n$/.exec(
        second.stdout()
      )
    assert.deepStrictEqual([found?.[1], found?.[2] === admin, found?.[3]], [first.url, false, first.url])
    assert.match((await send(`${found?.[2]}/metrics`)).text, /^db_client_connection_max/m)
    assert.strictEqual((await listClients(second.url, key)).text, demo.text)
    assert.deepStrictEqual(await second.stop(), inGoodOrder)
  })
})

/** With the defaults of all settings but those of the database. */
const usual = await start()

it("a start with a DATABASE_URL prints no token, and the service holds at most 150 MiB", async () => {
  assert.strictEqual(usual.stdout(), `listening on ${usual.url}\n`)
  await eventually(() => assert.isAtMost(residentMebibytes(usual.pid), 150))
})

describe("a start with settings", () => {
  it("with a port in use fails with one line", async () => {
    const port = await freePort()
    const listener = createServer().listen(port, "127.0.0.1")
    defer(() => listener.close())
    for (const env of [{ PORT: String(port) }, { ADMIN_PORT: String(port) }, { HOST: "192.0.2.1" }]) {
      const { code, lines, stdout } = await fail({ ...serviceEnv(databaseUrl), ...env })
      assertMatches({ code, stdout, lines }, { code: 1, stdout: "", lines: [/listen/i] })
      assert.include(lines[0], "HOST" in env ? env.HOST : String(port))
    }
  })

  it("with a port in use leaves no PostgreSQL running", async () => {
    const port = await freePort()
    const listener = createServer().listen(port, "127.0.0.1")
    defer(() => listener.close())
    const directory = await temporaryDirectory()
    const { code, lines } = await fail({ PORT: String(port), DATA_DIR: directory })
    assertMatches({ code, lines }, { code: 1, lines: [new RegExp(String(port))] })
    const { stdout } = await runToEnd("ls", [`${directory}/postgres`])
    assert.include(stdout, "PG_VERSION")
    assert.notInclude(stdout, "postmaster.pid")
  })
})

describe("a process in its role", () => {
  it("`worker` serves health alone and reports readiness", async () => {
    const service = await start({}, "--role", "worker")
    assert.strictEqual(service.stdout(), `listening on ${service.url}\n`)
    for (const path of ["/healthz", "/readyz"]) assert.strictEqual((await send(service.url + path)).status, 200)
    for (const path of [clients, "/openapi.json", "/docs", "/metrics", "/", "/healthz/"]) {
      expectProblem(await send(service.url + path, { headers: bearer(token) }), 404, "route_not_found")
    }
    expectProblem(await createClient(service.url, token, "from-a-worker", "Worker"), 404, "route_not_found")
    expectProblem(await send(`${service.url}/readyz`, { method: "POST" }), 405, "method_not_allowed")
    assert.deepStrictEqual(await service.stop(), inGoodOrder)
  })

  it("listens on HOST, and for operators on ADMIN_HOST", async () => {
    const admin = String(await freePort())
    const service = await start({ HOST: "127.0.0.2", ADMIN_HOST: "127.0.0.2", ADMIN_PORT: admin })
    assert.match(service.url, /^http:\/\/127\.0\.0\.2:\d+$/)
    const { port } = new URL(service.url)
    for (const path of [`${port}/healthz`, `${admin}/metrics`]) {
      assert.strictEqual((await send(`http://127.0.0.2:${path}`)).status, 200)
      await expectRefused(`http://127.0.0.1:${path}`)
    }
  })
})

it("the metrics alone are on METRICS_PORT of HOST, for any name", async () => {
  const metrics = await freePort()
  await start({ HOST: "127.0.0.2", METRICS_PORT: String(metrics) }, "--role", "worker")
  const url = `http://127.0.0.2:${metrics}`
  // It is measured after the start.
  await eventually(async () => {
    const { status, text } = await send(`${url}/metrics`, { headers: { host: "worker:9464" } })
    assert.deepStrictEqual([status, text.includes("background_workers")], [200, true])
  })
  for (const path of ["/console", "/healthz", "/"]) expectProblem(await send(url + path), 404, "route_not_found")
  await expectRefused(`http://127.0.0.1:${metrics}/metrics`)
})

it("the metrics are Prometheus text on ADMIN_PORT, on loopback unless ADMIN_HOST is set, and only there", async () => {
  const admin = await freePort()
  const service = await start({ HOST: "0.0.0.0", ADMIN_PORT: String(admin) })
  await expectRefused(`http://127.0.0.2:${admin}/metrics`)
  await listClients(service.url, token)
  await listClients(service.url, token)
  await send(`${service.url}${clients}/nobody`, { headers: bearer(token) })
  await createClient(service.url, token, "for-the-metrics", "MetricsEnabled")
  await send(`${service.url}${clients}`)
  await send(`${service.url}/no/such/path/${token}`)

  expectProblem(await send(`${service.url}/metrics`), 404, "route_not_found")
  const { headers, status, text } = await send(`http://127.0.0.1:${admin}/metrics`)
  assert.strictEqual(status, 200)
  assert.match(String(headers["content-type"]), /^text\/plain/)

  const count = (route: string, method: string, status: number) => {
    const lines = text
      .split("\n")
      .filter(
        (line) =>
          line.startsWith("http_server_request_duration_seconds_count{") &&
          line.includes(`"${route}"`) &&
          line.includes(`"${method}"`) &&
          line.includes(`"${status}"`)
      )
    return lines.map((line) => Number(line.split(" ").at(-1)))
  }
  assert.deepStrictEqual(count(clients, "GET", 200), [2])
  assert.deepStrictEqual(count(clients, "GET", 401), [1])
  assert.deepStrictEqual(count(clients, "POST", 201), [1])
  assert.deepStrictEqual(count(`${clients}/:clientId`, "GET", 404), [1])
  assert.notInclude(text, "nobody")
  assert.notInclude(text, "dk_")

  // Beside these, this port serves the console alone, to which it leads.
  const root = await send(`http://127.0.0.1:${admin}/`)
  assert.deepStrictEqual([root.status, root.headers["location"]], [302, "/console"])
  for (const path of [clients, "/openapi.json"]) {
    expectProblem(await send(`http://127.0.0.1:${admin}${path}`, { headers: bearer(token) }), 404, "route_not_found")
  }
})

const LogLine = Schema.fromJsonString(
  Schema.Struct({
    time: Schema.String,
    level: Schema.String,
    message: Schema.String,
    request_id: Schema.optionalKey(Schema.String),
    address: Schema.optionalKey(Schema.String),
    key_id: Schema.optionalKey(Schema.String)
  })
)
const logLines = (service: Service) =>
  service
    .stderr()
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => Schema.decodeSync(LogLine)(line))

it("the logs are JSON lines with the request's id, and show a successful request at debug, not at info", async () => {
  const [service, silent] = await Promise.all([
    start({ LOG_FORMAT: "json", LOG_LEVEL: "debug" }),
    start({ LOG_LEVEL: "none" })
  ])
  await listClients(service.url, token, { headers: { "x-request-id": "the-good-one" } })
  await send(`${service.url}/nowhere`, { headers: { "x-request-id": "the-lost-one" } })
  await send(`${service.url}${clients}/${"x".repeat(10_000)}`, {
    headers: { ...bearer(token), "x-request-id": "the-long-one" }
  })
  const { headers } = await send(`${service.url}/healthz`)
  const ids = ["the-good-one", "the-lost-one", "the-long-one", String(headers["x-request-id"])]
  await eventually(() =>
    assert.includeMembers(
      logLines(service).map((line) => line.request_id),
      ids
    )
  )
  for (const { url } of [usual, silent]) {
    await listClients(url, token, { headers: { "x-request-id": "a-success" } })
    await send(`${url}${clients}`, { headers: { "x-request-id": "a-refusal" } })
  }
  await eventually(() => assert.include(usual.stderr(), "a-refusal"))
  for (const each of [service, usual, silent]) assert.deepStrictEqual(await each.stop(), inGoodOrder)
  // The line of a refused request has a bounded length, and tells who asked.
  const long = logLines(service).find((line) => line.request_id === "the-long-one")
  assert.match(String(long?.message), /^GET .{256}… 400 /)
  assert.deepStrictEqual([long?.address, long?.key_id], ["127.0.0.1", token.slice(3, 15)])
  for (const { message, time } of logLines(service)) {
    assert.notStrictEqual(message, "")
    assert.strictEqual(new Date(time).toISOString(), time)
  }
  assert.notInclude(usual.stderr(), "a-success")
  assert.strictEqual(silent.stderr(), "")
})

it("the log begins with version, role and settings without secrets, and a flood of one kind writes few lines", async () => {
  const service = await start({ LOG_FORMAT: "json", REDIS_URL: "redis://someone:s3cret@127.0.0.1:1" })
  const started = () =>
    service
      .stderr()
      .split("\n")
      .find((line) => line.includes("The service has started"))
  await eventually(() => assert.isDefined(started()))
  const line = Object(JSON.parse(started() ?? ""))
  assert.deepStrictEqual(
    [line.level, line.role, line.version, line.settings.redisUrl, line.settings.shutdownGrace],
    ["INFO", "all", manifest.version, "[redacted]", "25s"]
  )
  assert.notInclude(service.stderr(), "s3cret")
  const flood = 200
  for (let i = 0; i < flood; i++) await send(`${service.url}/nowhere`)
  await send(`${service.url}${clients}`)
  await eventually(() => assert.include(service.stderr(), "credential_missing"))
  const lines = service
    .stderr()
    .split("\n")
    .filter((each) => each.includes("route_not_found"))
  assert.isAtLeast(lines.length, 50)
  assert.isBelow(lines.length, flood / 2)
  assert.deepStrictEqual(await service.stop(), inGoodOrder)
})

it("the log has no room on a full disk, and the service answers without it", async () => {
  const service = spawn("sh", ["-c", 'exec "$0" src/main.ts 2>/dev/full', process.execPath], {
    PORT: "0",
    ...serviceEnv(databaseUrl)
  })
  const [, url = ""] = await service.prints(/^listening on (http:\/\/\S+)$/m)
  for (const _ of [1, 2]) expectProblem(await send(`${url}/nowhere`), 404, "route_not_found")
  assert.strictEqual((await listClients(url, token)).status, 200)
  service.kill("SIGTERM")
  assert.deepStrictEqual(await ended(service), inGoodOrder)
})

describe("an invalid key file under DATA_DIR", () => {
  it.each(["", "c2hvcnQ="])("stops the start: %j", async (text) => {
    const directory = await temporaryDirectory()
    await mkdir(directory, { recursive: true })
    await writeFile(`${directory}/secret-key`, text)
    const { code, lines, stdout } = await fail({ DATA_DIR: directory, PORT: "0" })
    assertMatches({ code, stdout, lines }, { code: 1, stdout: "", lines: [/secret-key/] })
  })
})
