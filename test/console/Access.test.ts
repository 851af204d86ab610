/** Access to the console: links that work once, sessions, and forms of the session alone (contract §13). */
import { assert, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { inspect } from "node:util"
import { inReadTransaction } from "../../src/console/Page.ts"
import { run } from "../cli/Cli.support.ts"
import {
  type Console,
  csrfOf,
  fillProject,
  pagesOf,
  redeem,
  request,
  signIn,
  signOut,
  startConsole
} from "./Console.support.ts"

const overview = (server: Console, cookie: string) =>
  Effect.map(request(server, "/console", { headers: { cookie } }), ({ status }) => status)

it.live("shows the hint to sign in, on every page and for every form, until there is a session", function* () {
  const server = yield* startConsole()
  const project = yield* fillProject(server)
  const before = yield* project.deliveries()
  for (const path of [...pagesOf(project), "/console/enter", "/console/enter?code="]) {
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
})

it.live(
  "accepts a link once, before it expires, and sets a cookie that scripts and other sites cannot read",
  function* () {
    const server = yield* startConsole()
    const { answer, cookie, url } = yield* signIn(server)
    const attributes = answer.headers.get("set-cookie") ?? ""
    for (const attribute of ["HttpOnly", "SameSite=Strict", "Path=/console", "Max-Age="]) {
      assert.include(attributes, attribute)
    }
    assert.strictEqual(yield* overview(server, cookie), 200)
    assert.strictEqual((yield* redeem(server, url)).status, 401)
    const guessed = yield* redeem(server, `${server.admin}/console/enter?code=guessed`)
    assert.deepStrictEqual([guessed.status, guessed.headers.get("set-cookie")], [401, null])

    const { url: foreign } = yield* server.link
    for (const [name, value] of [
      ["sec-fetch-site", "cross-site"],
      ["sec-fetch-site", "same-site"],
      ["origin", "https://example.com"]
    ] as const) {
      const refused = yield* redeem(server, foreign, "", { [name]: value })
      assert.deepStrictEqual([refused.status, refused.headers.get("set-cookie")], [403, null], value)
    }
    assert.strictEqual(
      (yield* redeem(server, foreign, "", { origin: "null", "sec-fetch-site": "same-origin" })).status,
      303
    )

    const { url: raced } = yield* server.link
    const answers = yield* Effect.all(
      Array.from({ length: 8 }, () => redeem(server, raced)),
      { concurrency: "unbounded" }
    )
    assert.deepStrictEqual(answers.map(({ status }) => status).toSorted(), [303, 401, 401, 401, 401, 401, 401, 401])

    const { expiresAt, url: late } = yield* server.link
    assert.approximately(Date.parse(expiresAt), Date.now() + 600_000, 60_000)
    yield* server.sql`UPDATE console_links SET expires_at = now() - interval '1 second'`.pipe(Effect.orDie)
    assert.strictEqual((yield* redeem(server, late)).status, 401)
    assert.strictEqual(yield* overview(server, `${cookie.slice(0, -2)}AA`), 401)
  }
)

it.live(
  "keeps a link that is opened without its button, as by a preview or a prefetch, and changes nothing on a read",
  function* () {
    const server = yield* startConsole()
    const { url } = yield* server.link
    for (const method of ["HEAD", "GET", "GET"]) {
      const { headers, status, text } = yield* request(server, url.slice(server.admin.length), { method })
      assert.deepStrictEqual([status, headers.get("set-cookie")], [200, null], method)
      assert.strictEqual(text.includes('<form method="post" action="/console/enter"'), method === "GET")
      assert.include(headers.get("content-security-policy"), "default-src 'none'")
      assert.strictEqual(headers.get("cache-control"), "no-store")
      assert.strictEqual(headers.get("referrer-policy"), "no-referrer")
    }
    assert.strictEqual((yield* redeem(server, url)).status, 303)

    const write = server.sql`INSERT INTO console_links (digest, expires_at) VALUES ('', now())`
    const refused = yield* Effect.flip(inReadTransaction(server.sql, write))
    assert.include(inspect(refused, { depth: 9 }), "read-only transaction")
  }
)

it.live("takes forms of the session alone", function* () {
  const server = yield* startConsole()
  const project = yield* fillProject(server)
  const [one, other] = [yield* signIn(server), yield* signIn(server)]
  const page = `/console/webhook?project=${project.projectId}&installation=shop`
  const csrf = csrfOf((yield* request(server, page, { headers: { cookie: one.cookie } })).text)
  const disable = (cookie: string, token: string, more = {}) =>
    request(server, "/console/disable", {
      method: "POST",
      headers: { cookie },
      body: new URLSearchParams({ project: project.projectId, installation: "shop", csrf: token, ...more })
    })
  assert.strictEqual((yield* disable(one.cookie, "")).status, 403)
  assert.strictEqual((yield* disable(other.cookie, csrf)).status, 403)
  assert.include((yield* disable(one.cookie, csrf)).text, "Disable the webhook of shop?")
  assert.isTrue((yield* project.webhook()).enabled)
  assert.strictEqual((yield* disable(one.cookie, csrf, { confirmed: "yes" })).status, 303)
  assert.isFalse((yield* project.webhook()).enabled)
})

it.live(
  "refuses the cookie of a session that was signed out of, and of one that another sign-in replaced",
  function* () {
    const server = yield* startConsole()
    const [one, other] = [yield* signIn(server), yield* signIn(server)]
    const page = yield* request(server, "/console", { headers: { cookie: one.cookie } })
    const later = page.headers.get("set-cookie")?.split(";")[0] ?? ""
    const out = yield* signOut(server, one.cookie)
    assert.include(out.headers.get("set-cookie"), "Max-Age=0")
    for (const [cookie, status] of [
      [one.cookie, 401],
      [later, 401],
      [other.cookie, 200]
    ] as const) {
      assert.strictEqual(yield* overview(server, cookie), status)
    }
    const { cookie } = yield* signIn(server, other.cookie)
    assert.deepStrictEqual([yield* overview(server, other.cookie), yield* overview(server, cookie)], [401, 200])

    // An ended session is stored for as long as its cookie could be valid.
    const ended = server.sql<{ left: number }>`
    SELECT round(extract(epoch FROM expires_at - now()) / 3600)::float8 AS left FROM console_ended_sessions`
    assert.deepStrictEqual(yield* ended, [{ left: 8 }, { left: 8 }])
    yield* server.sql`UPDATE console_ended_sessions SET expires_at = now()`
    yield* signOut(server, cookie)
    assert.deepStrictEqual(yield* ended, [{ left: 8 }])
  }
)

it.live("sends every page with a policy that allows no script, and no page has one", function* () {
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
    ["/console/nothing", 404],
    ["/console/project?project=%00", 404],
    ["/console/deliveries", 404],
    [`/console/keys?project=${project.projectId}&cursor=nothing`, 404],
    [`/console/delivery?project=${project.projectId}&id=dlv_none`, 404]
  ] as const) {
    assert.strictEqual((yield* request(server, path, { headers: { cookie } })).status, status, path)
  }
  yield* server.sql`UPDATE projects SET move_state = 'switched' WHERE project_id = ${project.projectId}`
  for (const path of pagesOf(project)) {
    const { status, text } = yield* request(server, path, { headers: { cookie } })
    const isService = /keys|audit|replays/.test(path)
    assert.deepStrictEqual([status, text.includes("There is no project")], [isService ? 404 : 200, isService], path)
  }
  const moved = yield* request(server, `/console/project?project=${project.projectId}`, { headers: { cookie } })
  assert.include(moved.text, "Another cell serves this project.")
  const unknown = yield* request(server, "/console/nothing", { headers: { cookie } })
  assert.include(unknown.text, "The console has no page at this address.")
  const still = `/console/deliveries?project=${project.projectId}&status=dead`
  const refreshed = `${still}&refresh=on`
  for (const [path, isOn, other] of [
    [still, false, refreshed],
    [refreshed, true, still]
  ] as const) {
    const { text } = yield* request(server, path, { headers: { cookie } })
    assert.strictEqual(text.includes('<meta http-equiv="refresh" content="10" />'), isOn)
    assert.include(text, `href="${other.replaceAll("&", "&amp;")}"`)
  }
  const elsewhere = yield* Effect.promise(() => fetch(`${server.url}/console`))
  assert.strictEqual(elsewhere.status, 404)
})

it.live("answers 503 while a statement of a page or a form takes too long, whichever it is", function* () {
  const server = yield* startConsole()
  const { projectId } = yield* fillProject(server)
  const { cookie } = yield* signIn(server)
  for (const [table, path] of [
    ["attempt_minutes", "project"],
    ["audit_entries", "audit"]
  ] as const) {
    const page = request(server, `/console/${path}?project=${projectId}`, { headers: { cookie } })
    const { status, text } = yield* server.sql`LOCK TABLE ${server.sql(table)}`.pipe(
      Effect.andThen(page),
      server.sql.withTransaction,
      Effect.orDie
    )
    assert.deepStrictEqual([status, text.includes("<h1>Not available</h1>")], [503, true], table)
  }
  const csrf = csrfOf((yield* request(server, "/console", { headers: { cookie } })).text)
  const body = new URLSearchParams({ csrf, project: projectId, installation: "shop", confirmed: "yes" })
  const { status, text } = yield* server.sql`LOCK TABLE webhooks`.pipe(
    Effect.andThen(request(server, "/console/enable", { method: "POST", headers: { cookie }, body })),
    server.sql.withTransaction,
    Effect.orDie
  )
  assert.deepStrictEqual([status, text.includes("<h1>Not available</h1>")], [503, true], "enable")
})

it.live("has no link without ADMIN_PORT", function* () {
  const server = yield* startConsole()
  const { status, stderr, stdout } = yield* run(["console"], {
    env: { DATABASE_URL: server.databaseUrl, SECRET_KEY: Buffer.alloc(32).toString("base64") }
  })
  assert.deepStrictEqual([status, stdout, stderr.startsWith("ADMIN_PORT is not set")], [1, "", true])
})
