/** Access to the console: links that work once, sessions, and forms of the session alone (contract §13). */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { run } from "../cli/Cli.support.ts"
import { csrfOf, fillProject, pagesOf, request, signIn, startConsole } from "./Console.support.ts"

it.live("shows the hint to sign in, on every page and for every form, until there is a session", () =>
  Effect.gen(function* () {
    const server = yield* startConsole()
    const project = yield* fillProject(server)
    const before = yield* project.deliveries()
    for (const path of [...pagesOf(project), "/console/enter", "/console/enter?code=guessed"]) {
      for (const cookie of ["", "developer_api_console=", "developer_api_console=e30.AAAA"]) {
        const { status, text } = yield* request(server, path, { headers: { cookie } })
        assert.deepStrictEqual([status, text.includes("cli -- console")], [401, true], path)
        assert.notInclude(text, project.projectId)
      }
    }
    for (const path of ["retry", "test", "enable", "disable", "replay", "cancel-replay", "settle", "sign-out"]) {
      const body = new URLSearchParams({ project: project.projectId, installation: "shop", id: project.dead.id })
      const { status } = yield* request(server, `/console/${path}`, { method: "POST", body })
      assert.strictEqual(status, 401, path)
    }
    assert.deepStrictEqual(yield* project.deliveries(), before)
    assert.isTrue((yield* project.webhook()).enabled)
  }).pipe(Effect.scoped)
)

it.live("accepts a link once, before it expires, and sets a cookie that scripts and other sites cannot read", () =>
  Effect.gen(function* () {
    const server = yield* startConsole()
    const { answer, cookie, url } = yield* signIn(server)
    const attributes = answer.headers.get("set-cookie") ?? ""
    for (const attribute of ["HttpOnly", "SameSite=Strict", "Path=/console", "Max-Age="]) {
      assert.include(attributes, attribute)
    }
    assert.strictEqual((yield* request(server, "/console", { headers: { cookie } })).status, 200)
    assert.strictEqual((yield* request(server, url.slice(server.admin.length))).status, 401)

    const { expiresAt, url: late } = yield* server.link
    assert.approximately(Date.parse(expiresAt), Date.now() + 600_000, 60_000)
    yield* server.sql`UPDATE console_links SET expires_at = now() - interval '1 second'`.pipe(Effect.orDie)
    assert.strictEqual((yield* request(server, late.slice(server.admin.length))).status, 401)

    const altered = `${cookie.slice(0, -2)}AA`
    assert.strictEqual((yield* request(server, "/console", { headers: { cookie: altered } })).status, 401)
  }).pipe(Effect.scoped)
)

it.live("takes forms of the session alone, and ends the session on sign-out", () =>
  Effect.gen(function* () {
    const server = yield* startConsole()
    const project = yield* fillProject(server)
    const [one, other] = [yield* signIn(server), yield* signIn(server)]
    const page = `/console/webhook?project=${project.projectId}&installation=shop`
    const csrf = csrfOf((yield* request(server, page, { headers: { cookie: one.cookie } })).text)
    const disable = (cookie: string, token: string) =>
      request(server, "/console/disable", {
        method: "POST",
        headers: { cookie },
        body: new URLSearchParams({ project: project.projectId, installation: "shop", csrf: token })
      })
    assert.strictEqual((yield* disable(one.cookie, "")).status, 403)
    assert.strictEqual((yield* disable(other.cookie, csrf)).status, 403)
    assert.isTrue((yield* project.webhook()).enabled)
    const done = yield* disable(one.cookie, csrf)
    assert.deepStrictEqual([done.status, done.headers.get("location")], [303, page])
    assert.isFalse((yield* project.webhook()).enabled)

    const out = yield* request(server, "/console/sign-out", {
      method: "POST",
      headers: { cookie: one.cookie },
      body: new URLSearchParams({ csrf })
    })
    assert.include(out.headers.get("set-cookie"), "Max-Age=0")
  }).pipe(Effect.scoped)
)

it.live("sends every page with a policy that allows no script, and no page has one", () =>
  Effect.gen(function* () {
    const server = yield* startConsole()
    const project = yield* fillProject(server)
    const { cookie } = yield* signIn(server)
    for (const path of pagesOf(project)) {
      const { headers, status, text } = yield* request(server, path, { headers: { cookie } })
      assert.strictEqual(status, 200, path)
      const policy = headers.get("content-security-policy") ?? ""
      assert.include(policy, "default-src 'none'")
      assert.notMatch(policy, /script-src|unsafe-inline/)
      assert.notMatch(text, /<script|<img|<[^>]*\s(?:on\w+|style)=|javascript:/i)
      assert.notInclude(text, "whsec_")
    }
    for (const [path, status] of [
      [`/console/deliveries?project=${project.projectId}&status=lost`, 400],
      [`/console/deliveries?project=${project.projectId}&since=yesterday`, 400],
      ["/console/project?project=nobody", 404],
      ["/console/project?project=%00", 404],
      ["/console/deliveries", 404],
      [`/console/delivery?project=${project.projectId}&id=dlv_none`, 404]
    ] as const) {
      assert.strictEqual((yield* request(server, path, { headers: { cookie } })).status, status, path)
    }
    const elsewhere = yield* Effect.promise(() => fetch(`${server.url}/console`))
    assert.strictEqual(elsewhere.status, 404)
  }).pipe(Effect.scoped)
)

it.live("has no link without ADMIN_PORT", () =>
  Effect.gen(function* () {
    const server = yield* startConsole()
    const { status, stderr, stdout } = yield* run(["console"], {
      env: { DATABASE_URL: server.databaseUrl, SECRET_KEY: Buffer.alloc(32).toString("base64") }
    })
    assert.deepStrictEqual([status, stdout, stderr.startsWith("ADMIN_PORT is not set")], [1, "", true])
  }).pipe(Effect.scoped)
)
