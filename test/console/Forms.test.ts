/** Forms of the console: what operators write into them, and forms that take long or arrive twice, as from a double click. */
import { assert, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { untilRows } from "../support/Waiting.ts"
import { type Console, cookieOf, csrfOf, fillProject, request, signIn, startConsole } from "./Console.support.ts"

/** Signs in, and returns how to post a form of a project. */
const formsOf = Effect.fnUntraced(function* (server: Console, projectId: string, session?: string) {
  const cookie = session ?? (yield* signIn(server)).cookie
  const headers = { cookie }
  const csrf = csrfOf((yield* request(server, "/console", { headers })).text)
  return (action: string, fields: Readonly<Record<string, string>>) => {
    const body = new URLSearchParams({ csrf, project: projectId, ...fields })
    return request(server, `/console/${action}`, { method: "POST", headers, body })
  }
})

/** Returns the hidden fields of the form that asks for a confirmation. */
const confirmedOf = (text: string) =>
  Object.fromEntries(
    [...text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)].map(([, name = "", value = ""]) => [
      name,
      value
    ])
  )

const period = { since: "2026-01-01T00:00:00Z", until: "2099-01-01T00:00:00Z", type: "", pace: "1000" }

it.live("starts one replay, whose events are sent once, and refuses ids that it did not make", function* () {
  const server = yield* startConsole()
  const { finished, projectId, to } = yield* fillProject(server)
  const post = yield* formsOf(server, projectId)
  const asked = yield* post("replay", { installation: "shop", ...period, status: "delivered" })
  const form = confirmedOf(asked.text)
  const before = to.hits.length
  const answers = yield* Effect.all([post("replay", form), post("replay", form)], { concurrency: "unbounded" })
  assert.deepStrictEqual(
    answers.map(({ headers, status }) => [status, headers.get("location")]),
    answers.map(() => [303, `/console/replays?project=${projectId}`])
  )
  const replays = server.sql<{ id: string; state: string }>`
    SELECT id, state FROM replays WHERE project_id = ${projectId}`.pipe(Effect.orDie)
  yield* untilRows(replays, (rows) => rows.every(({ state }) => state === "completed"))
  yield* finished
  assert.deepStrictEqual(yield* replays, [{ id: form["replayId"] ?? "", state: "completed" }])
  assert.lengthOf(to.hits, before + 1)
  const started = yield* server.sql`
    SELECT target FROM audit_entries WHERE project_id = ${projectId} AND action = 'replay.start'`
  assert.deepStrictEqual(started, [{ target: form["replayId"] }])

  for (const replay of ["", "rpl_1", `dlv_${"0".repeat(32)}`, `rpl_${"0".repeat(33)}`, `rpl_${"0".repeat(31)}G`]) {
    const refused = yield* post("replay", { ...form, replayId: replay })
    assert.deepStrictEqual([refused.status, refused.text.includes("missing or invalid")], [409, true], replay)
  }
  assert.lengthOf(yield* replays, 1)
})

it.live("retries a delivery once, and says of the second form that the delivery is pending already", function* () {
  const server = yield* startConsole()
  const { dead, projectId } = yield* fillProject(server)
  const post = yield* formsOf(server, projectId)
  // The webhook rests, so that the delivery stays pending.
  yield* server.sql`
    UPDATE endpoint_health SET parked_until = now() + interval '1 hour' WHERE project_id = ${projectId}`
  const form = confirmedOf((yield* post("retry", { id: dead.id })).text)
  const answers = yield* Effect.all([post("retry", form), post("retry", form)], { concurrency: "unbounded" })
  const page = `/console/delivery?project=${projectId}&id=${dead.id}`
  assert.deepStrictEqual(
    answers.map(({ headers, status }) => [status, headers.get("location")]),
    answers.map(() => [303, page])
  )
  const shown = yield* Effect.forEach(answers, ({ headers }) =>
    request(server, page, { headers: { cookie: cookieOf(headers) } })
  )
  assert.deepStrictEqual(shown.map(({ text }) => /<h2>(The delivery .*)<\/h2>/.exec(text)?.[1]).toSorted(), [
    "The delivery is pending already",
    "The delivery is retried"
  ])
})

it.live("says once what was done, on the page of the record alone, so that a reload repeats nothing", function* () {
  const server = yield* startConsole()
  const { projectId, to } = yield* fillProject(server)
  const { cookie } = yield* signIn(server)
  const post = yield* formsOf(server, projectId, cookie)
  const before = to.hits.length
  const done = yield* post("test", { installation: "shop", confirmed: "yes" })
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

it.live(
  "disables a webhook with so many pending deliveries that to count them takes longer than a read may",
  function* () {
    const server = yield* startConsole()
    const { projectId } = yield* fillProject(server)
    const post = yield* formsOf(server, projectId)
    yield* Effect.orDie(server.sql`
    CREATE FUNCTION count_long() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(4); RETURN NEW; END $$`)
    yield* Effect.orDie(server.sql`
    CREATE TRIGGER count_long BEFORE UPDATE ON webhooks FOR EACH ROW EXECUTE FUNCTION count_long()`)
    const form = confirmedOf((yield* post("disable", { installation: "shop" })).text)
    assert.strictEqual((yield* post("disable", form)).status, 303)
  }
)

it.live("takes a pace of digits alone, and names a campaign that does not exist in its own words", function* () {
  const server = yield* startConsole()
  const { projectId } = yield* fillProject(server)
  const post = yield* formsOf(server, projectId)
  const paced = (pace: string) => post("replay", { installation: "shop", ...period, status: "all", pace })
  for (const pace of ["0x10", "1e3", " 5", "5 ", "+5", "1.0", "", "0", "1001", "9".repeat(400)]) {
    const { headers: answered, status } = yield* paced(pace)
    const query = new URLSearchParams(answered.get("location")?.split("?")[1])
    assert.deepStrictEqual([status, query.get("faulty"), query.get("pace") ?? ""], [303, "pace", pace])
  }
  for (const pace of ["1", "1000", "007"]) assert.include((yield* paced(pace)).text, "Start this replay?", pace)

  const lost = yield* post("campaign-command", { id: "cmp_none", operation: "pause" })
  assert.strictEqual(lost.status, 409)
  assert.include(lost.text, `Project &quot;${projectId}&quot; has no campaign &quot;cmp_none&quot;`)
  assert.notInclude(lost.text, "GET ")
})
