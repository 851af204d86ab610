/**
 * Forms of the console that arrive twice, as from a double click: what they do is done once, and the second answer says so. And
 * a form that takes long.
 */
import { assert, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { untilRows } from "../support/Waiting.ts"
import { type Console, csrfOf, fillProject, request, signIn, startConsole } from "./Console.support.ts"

/** Signs in, and returns how to post a form of a project. */
const formsOf = Effect.fnUntraced(function* (server: Console, projectId: string) {
  const { cookie } = yield* signIn(server)
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
  assert.deepStrictEqual(answers.map(({ status, text }) => [status, /<h1>(.*)<\/h1>/.exec(text)?.[1]]).toSorted(), [
    [200, "The delivery is pending already"],
    [200, "The delivery is retried"]
  ])
  for (const { text } of answers)
    assert.include(text, `href="/console/delivery?project=${projectId}&amp;id=${dead.id}"`)
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
    assert.include((yield* post("disable", form)).text, "The webhook is disabled")
  }
)
