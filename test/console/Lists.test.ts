/** The filters of the console's lists: by what failed, by campaign, channel and installation, and by time in UTC. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { fillProject, pagesOf, sessionOf, Shared } from "./Console.support.ts"

/** Returns the addresses of the console to which a page links. */
const linksOf = (text: string) =>
  [...text.matchAll(/href="(\/console[^"#]*)"/g)].map(([, path = ""]) => path.replaceAll("&amp;", "&"))

layer(Shared.layer, { excludeTestServices: true })("the pages of the console", (it) => {
  it.effect("link to what they name, and to no page that does not exist", function* () {
    const server = yield* Shared
    const project = yield* fillProject(server)
    const { projectId } = project
    const { get, post } = yield* sessionOf(server, projectId)
    yield* post("webhook.test", { installation: "shop" })
    const checked = new Map<string, number>()
    const statusOf = (path: string): Effect.Effect<number> =>
      Effect.flatMap(get(path), ({ headers, status }) =>
        status === 303 ? statusOf(headers.get("location") ?? "") : Effect.succeed(status)
      )
    for (const page of pagesOf(project)) {
      for (const link of linksOf((yield* get(page)).text)) {
        if (!checked.has(link)) checked.set(link, yield* statusOf(link))
      }
    }
    assert.deepStrictEqual(
      [...checked].filter(([, status]) => status !== 200),
      []
    )
    const has = Effect.fnUntraced(function* (page: string, link: string) {
      const links = linksOf((yield* get(`/console/${page.replace("?", `?project=${projectId}&`)}`)).text)
      assert.isTrue(
        links.some((path) => path.startsWith(`/console/${link.replace("?", `?project=${projectId}&`)}`)),
        `${page} to ${link}`
      )
    })
    yield* has(`delivery?id=${project.dead.id}`, "history?kind=event&id=evt_")
    yield* has("message?id=msg_reply_1", "history?kind=client&id=cli_a")
    yield* has("message?id=msg_reply_1", "history?kind=conversation&id=")
    yield* has("messages?", "history?kind=client&id=cli_a")
    yield* has("campaign?id=cmp_running", "messages?campaign=cmp_running&status=unknown")
    yield* has("keys?", "history?kind=key&id=")
    yield* has("audit?", "search?q=shop")
  })
})

layer(Shared.layer, { excludeTestServices: true })("the lists of the console", (it) => {
  it.effect("have the records that match all filters, and no other", function* () {
    const server = yield* Shared
    const { sql } = server
    const { dead, deliveries, projectId } = yield* fillProject(server)
    const [, delivered = assert.fail()] = yield* deliveries()
    const { get } = yield* sessionOf(server, projectId)
    const [sent = assert.fail()] = yield* Effect.orDie(sql<{ readonly id: string }>`
      SELECT id FROM messages WHERE project_id = ${projectId} AND campaign_id = 'cmp_running'`)
    // One record of each list is from the first of February. An id begins with its time.
    const time = `0${Date.UTC(2026, 1, 1, 12, 30).toString(16)}7`
    yield* Effect.orDie(sql`
      UPDATE messages SET created_at = '2026-02-01T12:30:00Z' WHERE project_id = ${projectId} AND id = 'msg_reply_4'`)
    yield* Effect.orDie(sql`
      UPDATE campaigns SET created_at = '2026-02-01T12:30:00Z' WHERE project_id = ${projectId} AND id = 'cmp'`)
    yield* Effect.orDie(sql`
      INSERT INTO replays (project_id, id, installation_id, since, until, event_types, statuses, pace, state, matched, position,
        paced_at, created_at, finished_at)
      SELECT ${projectId}, 'rpl_' || time, 'shop', '2026-01-01', '2026-01-02', '{}', '{dead}', 1, 'completed', 0, '', now(), now(), now()
      FROM unnest(${[time, "ff"]}::text[]) time`)
    yield* Effect.orDie(sql`
      INSERT INTO audit_entries (project_id, id, at, actor, action, target, detail)
      SELECT ${projectId}, 'aud_' || time, now(), 'alice', 'webhook.test', 'shop_' || time, '{}'
      FROM unnest(${[time, "ff"]}::text[]) time`)

    const replies = [1, 2, 3, 4, 5, 6, 7].map((n) => `msg_reply_${n}`)
    const [minute, second] = ["since=2026-02-01T12:30&until=2026-02-01T12:31", "since=2026-02-01T12:30:01"]
    const cases: ReadonlyArray<
      readonly [list: string, all: ReadonlyArray<string>, filters: Readonly<Record<string, ReadonlyArray<string>>>]
    > = [
      [
        "deliveries",
        [dead.id, delivered.id],
        {
          "answer=500": [dead.id],
          "answer=200&installation=shop": [delivered.id],
          "answer=timeout": [],
          "answer=500&status=delivered": [],
          "answer=500&installation=other": [],
          "since=2026-01-01T00:00&until=2099-01-01T00:00": [dead.id, delivered.id],
          "until=2026-01-01T00:00:30": []
        }
      ],
      [
        "messages",
        [...replies, sent.id],
        {
          "error=timeout": ["msg_reply_1", "msg_reply_2"],
          "error=http_503&status=unknown": ["msg_reply_7"],
          "status=needs+decision": ["msg_reply_1", "msg_reply_2"],
          "campaign=cmp_running": [sent.id],
          "campaign=cmp_running&error=timeout": [],
          "channel=chan": [...replies, sent.id],
          "channel=other": [],
          [minute]: ["msg_reply_4"],
          [`${minute}&error=http_403`]: ["msg_reply_4"],
          [`${second}&error=http_403`]: []
        }
      ],
      [
        "campaigns",
        ["cmp", "cmp_running"],
        { [minute]: ["cmp"], [second]: ["cmp_running"], [`${minute}&status=running`]: [] }
      ],
      [
        "replays",
        [`rpl_${time}`, "rpl_ff"],
        {
          "installation=shop": [`rpl_${time}`, "rpl_ff"],
          "installation=other": [],
          [minute]: [`rpl_${time}`],
          [second]: ["rpl_ff"]
        }
      ],
      ["audit", [`shop_${time}`, "shop_ff"], { [minute]: [`shop_${time}`], [second]: ["shop_ff"] }]
    ]
    for (const [list, all, filters] of cases) {
      for (const [filter, expected] of Object.entries({ "": all, ...filters })) {
        const { status, text } = yield* get(`/console/${list}?project=${projectId}&${filter}`)
        assert.strictEqual(status, 200)
        const shown = all.filter((id) => text.includes(`title="${id}"`))
        assert.deepStrictEqual(shown, expected, `${list} ${filter}`)
      }
    }
  })

  it.effect("keep the filter on their further pages, and show its times in fields of UTC", function* () {
    const server = yield* Shared
    const { projectId } = yield* fillProject(server)
    const { get } = yield* sessionOf(server, projectId)
    yield* Effect.orDie(server.sql`
      INSERT INTO audit_entries (project_id, id, at, actor, action, target, detail)
      SELECT ${projectId}, new_id('aud', now()), now(), 'alice', 'webhook.test', 'shop', '{}' FROM generate_series(1, 60)`)
    const { text } = yield* get(`/console/audit?project=${projectId}&since=2026-01-01T01:00:00%2B01:00`)
    assert.include(
      text.replaceAll(/\s+/g, " "),
      'Since (UTC) <input type="datetime-local" step="1" name="since" value="2026-01-01T00:00:00" />'
    )
    const [, next = assert.fail("no further page")] = /rel="next" href="([^"]+)"/.exec(text) ?? []
    const further = yield* get(next.replaceAll("&amp;", "&"))
    assert.lengthOf(further.text.match(/webhook\.test/g) ?? [], 10)
    assert.include(further.text, 'value="2026-01-01T00:00:00"')
    for (const since of ["2026-13-01T00:00", "2026-01-01", "yesterday"])
      assert.strictEqual((yield* get(`/console/audit?project=${projectId}&since=${since}`)).status, 400, since)
  })
})
