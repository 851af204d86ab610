/** What the console says before an action, what it shows of failures and of what waits, and of messages on request alone. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { userInfo } from "node:os"
import { fillProject, sessionOf, Shared } from "./Console.support.ts"

const openProject = Effect.gen(function* () {
  const server = yield* Shared
  const project = yield* fillProject(server)
  const session = yield* sessionOf(server, project.projectId)
  const of = `project=${project.projectId}`
  return {
    server,
    project,
    ...session,
    page: (path: string) => Effect.map(session.get(`/console/${path}&${of}`), ({ text }) => text)
  }
})

layer(Shared.layer, { excludeTestServices: true })("the console", (it) => {
  it.effect(
    "shows the address and the text of a message on request, and the audit has who has seen them",
    function* () {
      const { page, post, project, server } = yield* openProject
      yield* Effect.orDie(server.sql`
      UPDATE messages SET address = '+4915100', text = 'Your bike <b>is</b> ready'
      WHERE project_id = ${project.projectId} AND id = 'msg_reply_1'`)
      const before = yield* page("message?id=msg_reply_1")
      for (const text of ["+4915100", "Your bike"]) assert.notInclude(before, text)
      const audit = Effect.orDie(server.sql<{ readonly actor: string; readonly target: string }>`
      SELECT actor, target FROM audit_entries WHERE project_id = ${project.projectId} AND action = 'message.show'`)
      assert.isEmpty(yield* audit)

      const shown = yield* post("message.show", { message: "msg_reply_1" })
      assert.strictEqual(shown.status, 200)
      assert.include(shown.text, "+4915100")
      assert.include(shown.text, "Your bike &lt;b&gt;is&lt;/b&gt; ready")
      assert.deepStrictEqual(yield* audit, [{ actor: `${userInfo().username} (console)`, target: "msg_reply_1" }])
      // Nothing of them is in a cookie.
      assert.notInclude(shown.headers.getSetCookie().join(), "notice")
      assert.strictEqual((yield* post("message.show", { message: "msg_none" })).status, 409)
      assert.lengthOf(yield* audit, 1)
    }
  )

  it.effect("asks with the object and the consequence", function* () {
    const { post, project, server } = yield* openProject
    const settle = (yield* post("message.settle", { message: "msg_reply_1", as: "failed" })).text
    for (const words of [
      "Settle the message msg_reply_1 as failed?",
      "is not sent again",
      "its callers see this state"
    ]) {
      assert.include(settle, words)
    }
    const start = yield* post("replay.start", {
      installation: "shop",
      since: "2026-01-01T00:00:00Z",
      until: "2099-01-01T00:00:00Z",
      status: "dead",
      type: "crm.deal.created.v1"
    })
    for (const words of ["events since 2026-01-01", "oldest first: crm.deal.created.v1.", project.to.url])
      assert.include(start.text, words)
    assert.notInclude(start.text, "enable it first")
    yield* Effect.orDie(server.sql`UPDATE webhooks SET enabled = false WHERE project_id = ${project.projectId}`)
    const period = { since: "2026-01-01T00:00", until: "2099-01-01T00:00", status: "dead", type: "" }
    const disabled = yield* post("replay.start", { installation: "shop", ...period })
    assert.include(disabled.text, "The webhook is disabled: enable it first.")
    yield* Effect.orDie(server.sql`
      INSERT INTO replays (project_id, id, installation_id, since, until, event_types, statuses, pace, state, matched, position,
        paced_at, created_at)
      VALUES (${project.projectId}, 'rpl_a', 'shop', '2026-11-01', '2026-11-02', '{}', '{dead}', 1, 'running', 0, '', now(), now())`)
    const cancel = (yield* post("replay.cancel", { replay: "rpl_a" })).text
    for (const words of ["Cancel the replay rpl_a to shop?", "since 2026-11-01", "cannot be resumed"]) {
      assert.include(cancel, words)
    }
    assert.strictEqual((yield* post("replay.cancel", { replay: "rpl_none" })).status, 409)
    // Not in the words of the API, which speak of a path.
    const gone = yield* post("campaign.cancel", { campaign: "cmp_none", confirmed: "yes" })
    assert.include(gone.text, "has no campaign &quot;cmp_none&quot;")
  })

  it.effect("shows a campaign that is completed with failures in amber, with its reasons and a retry", function* () {
    const { page, post, project, server } = yield* openProject
    const { sql } = server
    const { projectId } = project
    yield* Effect.orDie(sql`
      UPDATE campaign_recipients SET status = 'failed', error_code = 'http_403', message_id = 'msg_reply_4'
      WHERE project_id = ${projectId} AND status = 'pending'`)
    yield* Effect.orDie(
      sql`UPDATE messages SET campaign_id = 'cmp_running' WHERE project_id = ${projectId} AND id = 'msg_reply_4'`
    )
    yield* Effect.orDie(
      sql`UPDATE campaigns SET status = 'completed' WHERE project_id = ${projectId} AND id = 'cmp_running'`
    )
    const amber = '<span class="badge busy">completed with failures</span>'
    assert.include(yield* page("campaigns?status=completed"), amber)
    const shown = yield* page("campaign?id=cmp_running")
    for (const words of [amber, "http_403", "Retry the failed recipients"]) assert.include(shown, words)
    const failed = yield* page("failed-recipients?campaign=cmp_running&reason=http_403")
    assert.lengthOf(failed.match(/message\?project=[^"]*id=msg_reply_4/g) ?? [], 2)
    assert.include(yield* page("failed-recipients?campaign=cmp_running&reason=http_404"), "No failed recipients.")

    const message = yield* page("message?id=msg_reply_4")
    assert.notInclude(message, "Its caller may send it again")
    assert.include(message, "retries")
    const asked = (yield* post("campaign.retry_failed", { campaign: "cmp_running" })).text
    for (const words of ["2 recipients of", "2 × http_403", "the campaign runs again"]) assert.include(asked, words)
    const done = yield* post("campaign.retry_failed", { campaign: "cmp_running", confirmed: "yes" })
    assert.strictEqual(done.status, 303)
    const after = yield* page("campaign?id=cmp_running")
    assert.notInclude(after, "Retry the failed recipients")
    assert.notInclude(after, "completed with failures")
  })

  it.effect("says in words what is unproven, and which deliveries wait for a probe", function* () {
    const { page, project, server } = yield* openProject
    const { projectId, setHealth } = project
    yield* Effect.orDie(server.sql`UPDATE webhooks SET updated_at = now() WHERE project_id = ${projectId}`)
    assert.include(yield* page("webhook?installation=shop"), "no attempt has succeeded since the webhook was changed")
    yield* setHealth("failures = 12, strikes = 12, parked_until = now() + interval '1 hour', next_due_at = NULL")
    yield* project.queue(3)
    const [first] = yield* Effect.orDie(server.sql<{ readonly id: string }>`
      SELECT id FROM deliveries WHERE project_id = ${projectId} AND finished_at IS NULL ORDER BY available_at, id LIMIT 1`)
    const listed = yield* page("deliveries?status=pending")
    assert.lengthOf(listed.match(/waits until a probe of its endpoint succeeds/g) ?? [], 2)
    assert.lengthOf(listed.match(/as the probe of its endpoint/g) ?? [], 1)
    assert.include(yield* page(`delivery?id=${first?.id}`), "as the probe of its endpoint")
    const webhook = yield* page("webhook?installation=shop")
    assert.include(webhook, "the other deliveries wait until it succeeds")
    assert.lengthOf(webhook.match(/waits until a probe of its endpoint succeeds/g) ?? [], 2)
  })
})
