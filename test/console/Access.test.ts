/** The console over HTTP: links that work once, sessions, their pages, and their forms (contract §13). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { inspect } from "node:util"
import { inReadTransaction } from "../../src/console/Page.ts"
import { actions } from "../../src/operators/Actions.ts"
import { untilRows } from "../support/Waiting.ts"
import {
  type Console,
  cookieOf,
  fillProject,
  pagesOf,
  redeem,
  request,
  sessionOf,
  Shared,
  signIn,
  startConsole
} from "./Console.support.ts"

/** Returns the hidden fields of the form that asks for a confirmation. */
const confirmedOf = (text: string) =>
  Object.fromEntries(
    [...text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)].map(([, name = "", value = ""]) => [
      name,
      value
    ])
  )

const period = { since: "2026-01-01T00:00:00Z", until: "2099-01-01T00:00:00Z", status: "delivered", pace: "1000" }

const overview = (server: Console, cookie: string) =>
  Effect.map(request(server, "/console", { headers: { cookie } }), ({ status }) => status)

layer(Shared.layer, { excludeTestServices: true })("the console", (it) => {
  it.effect("shows the hint to sign in, on every page and for every form, until there is a session", function* () {
    const server = yield* Shared
    const project = yield* fillProject(server)
    const before = yield* project.deliveries()
    for (const path of [...pagesOf(project), "/console/enter", "/console/enter?code="]) {
      for (const cookie of ["", "developer_api_console=", "developer_api_console=e30.AAAA"]) {
        const { status, text } = yield* request(server, path, { headers: { cookie } })
        assert.deepStrictEqual([status, text.includes("cli -- console")], [401, true], path)
        assert.notInclude(text, project.projectId)
      }
    }
    for (const path of [...Object.keys(actions), "sign-out"]) {
      const body = new URLSearchParams({ project: project.projectId, installation: "shop", delivery: project.dead.id })
      const { status } = yield* request(server, `/console/${path}`, { method: "POST", body })
      assert.strictEqual(status, 401, path)
    }
    assert.deepStrictEqual(yield* project.deliveries(), before)
    assert.isTrue((yield* project.webhook()).enabled)
  })

  it.effect(
    "accepts a link once, before it expires, and sets a cookie that scripts and other sites cannot read",
    function* () {
      const server = yield* Shared
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
      const own = { origin: "null", "sec-fetch-site": "same-origin" }
      assert.strictEqual((yield* redeem(server, foreign, "", own)).status, 303)

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

  it.effect(
    "keeps a link that is opened without its button, as by a preview or a prefetch, and changes nothing on a read",
    function* () {
      const server = yield* Shared
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

  it.effect("takes forms of the session alone", function* () {
    const server = yield* Shared
    const project = yield* fillProject(server)
    const { projectId } = project
    const [one, other] = [yield* sessionOf(server, projectId), yield* sessionOf(server, projectId)]
    const disable = (session: typeof one, csrf: string, more = {}) =>
      session.post("webhook.disable", { installation: "shop", csrf, ...more })
    assert.strictEqual((yield* disable(one, "")).status, 403)
    assert.strictEqual((yield* disable(other, one.csrf)).status, 403)
    assert.include((yield* disable(one, one.csrf)).text, "Disable the webhook of shop?")
    assert.isTrue((yield* project.webhook()).enabled)
    assert.strictEqual((yield* disable(one, one.csrf, { confirmed: "yes" })).status, 303)
    assert.isFalse((yield* project.webhook()).enabled)
  })

  it.effect(
    "refuses the cookie of a session that was signed out of, and of one that another sign-in replaced",
    function* () {
      const server = yield* Shared
      const [one, other] = [yield* sessionOf(server), yield* sessionOf(server)]
      const later = cookieOf((yield* one.get("/console")).headers)
      const out = yield* one.post("sign-out")
      assert.include(out.headers.get("set-cookie"), "Max-Age=0")
      for (const [cookie, status] of [
        [one.cookie, 401],
        [later, 401],
        [other.cookie, 200]
      ] as const) {
        assert.strictEqual(yield* overview(server, cookie), status)
      }
      const next = yield* sessionOf(server, undefined, (yield* signIn(server, other.cookie)).cookie)
      assert.deepStrictEqual([yield* overview(server, other.cookie), yield* overview(server, next.cookie)], [401, 200])

      // An ended session is stored for as long as its cookie could be valid.
      const ended = server.sql<{ left: number }>`
      SELECT round(extract(epoch FROM expires_at - now()) / 3600)::float8 AS left FROM console_ended_sessions`
      assert.deepStrictEqual(yield* ended, [{ left: 8 }, { left: 8 }])
      yield* server.sql`UPDATE console_ended_sessions SET expires_at = now()`
      yield* next.post("sign-out")
      assert.deepStrictEqual(yield* ended, [{ left: 8 }])
    }
  )

  it.effect("refuses the cookie of a session that began at another database with the same SECRET_KEY", function* () {
    const [one, other] = [yield* Shared, yield* startConsole()]
    for (const [from, to] of [
      [one, other],
      [other, one]
    ] as const) {
      const { cookie } = yield* sessionOf(from)
      assert.deepStrictEqual([yield* overview(from, cookie), yield* overview(to, cookie)], [200, 401])
    }
  })

  it.effect("sends every page with a policy that allows no script, and no page has one", function* () {
    const server = yield* Shared
    const project = yield* fillProject(server)
    const { projectId } = project
    const { get } = yield* sessionOf(server)
    for (const path of pagesOf(project)) {
      const { headers, status, text } = yield* get(path)
      assert.strictEqual(status, 200, path)
      const policy = headers.get("content-security-policy") ?? ""
      assert.include(policy, "default-src 'none'")
      assert.notMatch(policy, /script-src|unsafe-inline/)
      assert.notMatch(text, /<script|<img|<[^>]*\s(?:on\w+|style)=|javascript:/i)
      assert.notInclude(text, "whsec_")
    }
    for (const [path, status, shown] of [
      [`deliveries?project=${projectId}&status=lost`, 400, ""],
      [`deliveries?project=${projectId}&since=yesterday`, 400, ""],
      ["project?project=nobody", 404, ""],
      ["nothing", 404, "The console has no page at this address."],
      ["project?project=%00", 404, ""],
      ["deliveries", 404, ""],
      [`keys?project=${projectId}&cursor=nothing`, 404, ""],
      [`delivery?project=${projectId}&id=dlv_none`, 404, ""]
    ] as const) {
      const answer = yield* get(`/console/${path}`)
      assert.deepStrictEqual([answer.status, answer.text.includes(shown)], [status, true], path)
    }
    yield* server.sql`UPDATE projects SET move_state = 'switched' WHERE project_id = ${projectId}`
    for (const path of pagesOf(project)) {
      const { status, text } = yield* get(path)
      const isService = /keys|audit|replays|campaigns\?/.test(path)
      assert.deepStrictEqual([status, text.includes("There is no project")], [isService ? 404 : 200, isService], path)
    }
    const { text: moved } = yield* get(`/console/project?project=${projectId}`)
    assert.include(moved, "Another cell serves this project.")
    const still = `/console/deliveries?project=${projectId}&status=dead`
    const refreshed = `${still}&refresh=on`
    for (const [path, isOn, other] of [
      [still, false, refreshed],
      [refreshed, true, still]
    ] as const) {
      const { text } = yield* get(path)
      assert.strictEqual(text.includes('<meta http-equiv="refresh" content="10" />'), isOn)
      assert.include(text, `href="${other.replaceAll("&", "&amp;")}"`)
    }
    const elsewhere = yield* Effect.promise(() => fetch(`${server.url}/console`))
    assert.strictEqual(elsewhere.status, 404)
  })

  it.effect("answers 503 while a statement of a page or a form takes too long, whichever it is", function* () {
    const server = yield* Shared
    const { dead, projectId } = yield* fillProject(server)
    const { get, post } = yield* sessionOf(server, projectId)
    for (const [table, send] of [
      ["audit_entries", get(`/console/audit?project=${projectId}`)],
      ["webhooks", post("webhook.enable", { installation: "shop" })],
      ["deliveries", post("delivery.retry", { delivery: dead.id })]
    ] as const) {
      const { status, text } = yield* server.sql`LOCK TABLE ${server.sql(table)}`.pipe(
        Effect.andThen(send),
        server.sql.withTransaction,
        Effect.orDie
      )
      assert.deepStrictEqual([status, text.includes("<h1>Not available</h1>")], [503, true], table)
    }
  })

  it.effect("starts one replay, whose events are sent once, and refuses ids that it did not make", function* () {
    const server = yield* Shared
    const { finished, projectId, to } = yield* fillProject(server)
    const { post } = yield* sessionOf(server, projectId)
    const asked = yield* post("replay.start", { installation: "shop", ...period })
    const form = confirmedOf(asked.text)
    const before = to.hits.length
    const answers = yield* Effect.all([post("replay.start", form), post("replay.start", form)], {
      concurrency: "unbounded"
    })
    assert.deepStrictEqual(
      answers.map(({ headers, status }) => [status, headers.get("location")]),
      answers.map(() => [303, `/console/webhook?project=${projectId}&installation=shop`])
    )
    const replays = server.sql<{ id: string; state: string }>`
      SELECT id, state FROM replays WHERE project_id = ${projectId}`.pipe(Effect.orDie)
    yield* untilRows(replays, (rows) => rows.every(({ state }) => state === "completed"))
    yield* finished
    assert.deepStrictEqual(yield* replays, [{ id: `rpl_${form["once"]}`, state: "completed" }])
    assert.lengthOf(to.hits, before + 1)
    const started = yield* server.sql`
      SELECT target, (detail ->> 'until')::timestamptz <= now() AS "isPast"
      FROM audit_entries WHERE project_id = ${projectId} AND action = 'replay.start'`
    assert.deepStrictEqual(started, [{ target: `rpl_${form["once"]}`, isPast: true }])

    for (const once of ["", "1", "0".repeat(33), `${"0".repeat(31)}G`]) {
      const refused = yield* post("replay.start", { ...form, once })
      assert.deepStrictEqual([refused.status, refused.text.includes("<h1>Not done</h1>")], [409, true], once)
    }
    assert.lengthOf(yield* replays, 1)
  })

  it.effect("says once what was done, on the page of the record alone, so that a reload repeats nothing", function* () {
    const server = yield* Shared
    const { projectId, to } = yield* fillProject(server)
    const { cookie, post } = yield* sessionOf(server, projectId)
    const before = to.hits.length
    const done = yield* post("webhook.test", { installation: "shop" })
    const page = `/console/webhook?project=${projectId}&installation=shop`
    assert.deepStrictEqual([done.status, done.headers.get("location")], [303, page])
    const shownOn = (path: string, sent: string, kept = sent) =>
      Effect.map(request(server, path, { headers: { cookie: sent } }), ({ headers, text }) => ({
        isShown: text.includes("The test event was delivered"),
        cookie: cookieOf(headers, kept)
      }))
    const notified = cookieOf(done.headers, cookie)
    // Another tab asks before the page does, and a third one had asked before the form was sent.
    const other = yield* shownOn("/console", notified)
    const late = yield* shownOn("/console", cookie, other.cookie)
    const first = yield* shownOn(page, late.cookie)
    const again = yield* shownOn(page, first.cookie)
    assert.deepStrictEqual(
      [other, late, first, again].map(({ isShown }) => isShown),
      [false, false, true, false]
    )
    const forged = notified.replace(
      /[^=]+$/,
      (value) => Buffer.from('{"title":"T","message":"M"}').toString("base64url") + value.slice(-44)
    )
    assert.notInclude((yield* request(server, page, { headers: { cookie: forged } })).text, 'class="notice"')
    assert.lengthOf(to.hits, before + 1)
  })

  it.effect("names every invalid field of a form, and a record that does not exist", function* () {
    const server = yield* Shared
    const { projectId } = yield* fillProject(server)
    const { post } = yield* sessionOf(server, projectId)
    const faulty = yield* post("replay.start", { installation: "shop", ...period, since: "yesterday" })
    assert.strictEqual(faulty.status, 409)
    assert.include(faulty.text, "&quot;since&quot; must be an instant of RFC 3339")
    const lost = yield* post("campaign.pause", { campaign: "cmp_none" })
    assert.strictEqual(lost.status, 409)
    assert.include(lost.text, `Project &quot;${projectId}&quot; has no campaign &quot;cmp_none&quot;`)
  })
})
