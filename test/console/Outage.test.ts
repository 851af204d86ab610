/** An outage in a browser: what the console shows of it is compared with counts from the database. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Page } from "playwright-core"
import { startBrowser } from "../support/Browser.ts"
import { requires } from "../support/Programs.ts"
import { brokenIn, signedIn } from "./Browser.support.ts"
import { fillProject, startConsole } from "./Console.support.ts"
import { answer, makeOutage } from "./Outage.support.ts"

const summaryOf = async (page: Page) => (await page.getByRole("status").textContent()) ?? ""

/** Counts in the database what the pages of an outage have to show. */
const countsOf = (sql: SqlClient.SqlClient) =>
  Effect.all({
    waiting: sql<{ readonly installation: string; readonly pending: number; readonly until: Date }>`
      SELECT installation_id AS installation, parked_until AS until, (
        SELECT count(*)::int FROM deliveries
        WHERE status = 'pending' AND deliveries.installation_id = endpoint_health.installation_id
      ) AS pending
      FROM endpoint_health WHERE failures > 0 ORDER BY 1`,
    attempts: sql<{ readonly delivered: number; readonly failed: number }>`
      SELECT (count(*) FILTER (WHERE entry ->> 'statusCode' = '200'))::int AS delivered,
        (count(*) FILTER (WHERE coalesce(entry ->> 'statusCode', '') <> '200'))::int AS failed
      FROM deliveries, jsonb_array_elements(attempt_log) entry`,
    records: sql<{
      readonly dead: number
      readonly undecided: number
      readonly waiting: string
      readonly lost: string
      readonly event: string
      readonly deal: string
      readonly key: string
      readonly message: string
    }>`
      SELECT (SELECT count(*)::int FROM deliveries WHERE status = 'dead') AS dead,
        (SELECT count(*)::int FROM messages WHERE status = 'unknown' AND available_at IS NULL) AS undecided,
        (SELECT max(id) FROM deliveries WHERE status = 'pending' AND installation_id = 'three') AS waiting,
        (SELECT max(id) FROM deliveries WHERE status = 'dead' AND installation_id = 'three') AS lost,
        (SELECT max(event_id) FROM deliveries) AS event, (SELECT max(id) FROM deals) AS deal,
        (SELECT max(key_id) FROM api_keys) AS key, (SELECT id FROM messages WHERE campaign_id IS NOT NULL) AS message`
  }).pipe(
    Effect.orDie,
    Effect.map(({ attempts: [attempts = assert.fail()], records: [records = assert.fail()], waiting }) => ({
      ...records,
      attempts,
      endpoint: (name: string) => waiting.find(({ installation }) => installation === name) ?? assert.fail(name),
      failing: waiting.map(({ installation }) => installation)
    }))
  )
type Counts = Effect.Success<ReturnType<typeof countsOf>>

/** Looks for the causes of an outage as an operator does. */
const read = async (page: Page, projectId: string, counts: Counts) => {
  const open = async (path: string) => {
    await page.goto(path)
    assert.deepStrictEqual(await brokenIn(page), [], path)
  }
  await open("/console")
  assert.deepStrictEqual([counts.failing, counts.undecided], [["five", "four", "six", "three"], 2])
  assert.match(
    await summaryOf(page),
    new RegExp(
      `^4 of 6 endpoints fail, the longest for \\d+ (second|minute)s?; ${counts.dead} deliveries are dead; 2 messages need a decision; (nothing is overdue|the oldest due delivery has waited \\d+ seconds)\\.$`
    )
  )
  const failing = page.getByRole("table", { name: /^Failing endpoints/ })
  for (const name of counts.failing) {
    const row = (await failing.getByRole("row", { name }).textContent()) ?? ""
    assert.match(row, name === "six" ? /parked[^]*timeout/ : /parked[^]*status 500/)
    assert.strictEqual(
      await failing.getByRole("row", { name }).locator("[data-name=Waiting]").innerText(),
      String(counts.endpoint(name).pending)
    )
  }
  await page.locator('[data-name="Messages that need a decision"]').getByRole("link").click()
  await page.getByRole("heading", { name: /^Messages of/ }).waitFor()
  assert.strictEqual(await page.locator("tbody tr").count(), counts.undecided)
  assert.deepStrictEqual((await page.locator("[data-name=Message]").allInnerTexts()).toSorted(), [
    "msg_reply_1",
    "msg_reply_2"
  ])
  assert.strictEqual(await page.getByLabel("State").inputValue(), "needs decision")
  await page.goBack()
  await page.getByText("The same as numbers").click()
  const numbers = page.getByRole("table", { name: /^Attempts in slices/ })
  const total = async (column: string) =>
    (await numbers.locator(`[data-name=${column}]`).allInnerTexts()).reduce((sum, text) => sum + Number(text), 0)
  assert.deepStrictEqual({ delivered: await total("Delivered"), failed: await total("Failed") }, counts.attempts)
  for (const chart of ["Attempts: ", "Duration of attempts"]) {
    // The numbers of both axes, and one of them with its unit; a slice is drawn even if it is the only one.
    const drawn = page.getByRole("img", { name: chart })
    const labels = await drawn.locator("text").allTextContents()
    assert.isAbove(labels.length, 6, chart)
    if (chart.startsWith("Duration")) assert.match(labels.join(" "), /\d m?s/)
    assert.isAbove(await drawn.locator("rect, circle").count(), 1, chart)
  }
  await page.getByRole("link", { name: "Refresh every 10 s" }).click()
  assert.strictEqual(await page.locator("meta[http-equiv=refresh]").getAttribute("content"), "10")
  await page.getByRole("link", { name: "Stop the refresh" }).click()
  assert.strictEqual(await page.locator("meta[http-equiv=refresh]").count(), 0)

  await failing.getByRole("link", { name: "three" }).click()
  await page.getByRole("heading", { name: "Webhook of three" }).waitFor()
  assert.deepStrictEqual(await brokenIn(page), [])
  await page.getByText("parked", { exact: true }).waitFor()
  await page.getByText(/^status 500/).waitFor()
  assert.strictEqual(await page.getByLabel(/^The beginning of the answer/).textContent(), answer)
  const until = (label: string) => page.locator("dl div", { hasText: label }).locator("time").first()
  const shown = async (label: string) => [
    await until(label).getAttribute("datetime"),
    await until(label)
      .innerText()
      .then((text) => /^in \d+ minutes\s2/.test(text))
  ]
  const expected = [counts.endpoint("three").until.toISOString(), true]
  assert.deepStrictEqual(await shown("Next attempt"), expected)
  await open(`/console/project?project=${projectId}`)
  assert.include((await page.getByRole("row", { name: "three" }).textContent()) ?? "", "parked")
  await open(`/console/delivery?project=${projectId}&id=${counts.waiting}`)
  assert.deepStrictEqual(await shown("Next attempt"), expected)
  await open(`/console/delivery?project=${projectId}&id=${counts.lost}`)
  assert.include(await page.locator("[data-name=Answer]").allInnerTexts(), answer)
  assert.match(
    (await page.getByLabel(/^Headers of attempt/).textContent()) ?? "",
    new RegExp(`^webhook-id: ${counts.lost}\nwebhook-timestamp: \\d+\nwebhook-signature: v1,…`)
  )
  await open(`/console/message?project=${projectId}&id=${counts.message}`)
  await page.getByText("The provider has accepted it.").waitFor()
  await page.getByRole("cell", { name: `sandbox_${counts.message}` }).waitFor()
  await page.locator("dl").getByRole("link", { name: "cmp_running" }).click()
  await page.getByRole("heading", { name: "Campaign Harbour Wines" }).waitFor()
  await page.getByText("1 of 3").waitFor()
  await open("/console/nothing")
  await page.getByRole("heading", { name: "Not found" }).waitFor()

  const searched: ReadonlyArray<readonly [text: string, heading: string | RegExp]> = [
    [counts.lost, `Delivery ${counts.lost}`],
    ["msg_reply_4", "Message msg_reply_4"],
    ["cmp_r", "Campaign Harbour Wines"],
    ["thr", "Webhook of three"],
    [counts.key, /^API keys of/],
    [counts.event, `Event ${counts.event}`],
    [counts.deal, `Deal ${counts.deal}`],
    ["cli_", "Search"]
  ]
  for (const [text, heading] of searched) {
    await page.getByRole("searchbox").fill(text)
    await page.getByRole("button", { name: "Search" }).click()
    await page.getByRole("heading", { name: heading }).waitFor()
    if (heading === "Search") {
      await page
        .getByRole("row", { name: new RegExp(text) })
        .first()
        .waitFor()
    }
  }
  assert.strictEqual(await page.locator("tbody tr").count(), 3)
}

/** Tests and disables a webhook whose endpoint fails. */
const end = async (page: Page, projectId: string, installation: string, counts: Counts) => {
  const press = (name: string) => page.getByRole("button", { name, exact: true }).click()
  const { pending } = counts.endpoint(installation)
  await page.goto(`/console/webhook?project=${projectId}&installation=${installation}`)
  await press("Send a test event")
  await page.getByRole("heading", { name: "The test event was not delivered" }).waitFor()
  await page.getByText("The endpoint answered with status 500").waitFor()
  await press("Disable")
  await page.getByText(`${pending} pending deliveries will be dead-lettered`).waitFor()
  await press("Disable the webhook")
  await page.getByText(`${pending} deliveries were dead-lettered`).waitFor()
  await page.goto(`/console/audit?project=${projectId}`)
  await page
    .locator("tr", { hasText: "webhook.disable" })
    .filter({ hasText: installation })
    .getByText(`deadLettered: ${pending}`)
    .waitFor()
}

describe("an outage in the console", () => {
  requires("chromium")

  it.live(
    "says what is wrong, since when and why, what an action will do, and finds every record by its id",
    function* () {
      const server = yield* startConsole({ WEBHOOK_TIMEOUT: "500ms", WEBHOOK_KEEP_ALLOWED_ANSWERS: "true" })
      const browser = yield* startBrowser
      // No page has a script (`Access`), so the browser runs none.
      const { page } = yield* signedIn(browser, server, { viewport: { width: 390, height: 800 } })
      assert.strictEqual(
        yield* Effect.promise(() => summaryOf(page)),
        "Nothing waits for an operator; nothing is overdue."
      )

      const { projectId, sql } = yield* makeOutage(server)
      const counts = yield* countsOf(sql)
      yield* Effect.promise(() => read(page, projectId, counts))
      for (const installation of ["three", "four"]) {
        yield* Effect.promise(() => end(page, projectId, installation, counts))
      }

      yield* Effect.orDie(sql`UPDATE endpoint_health SET failing_since = NULL WHERE installation_id = 'five'`)
      yield* Effect.promise(async () => {
        await page.goto("/console")
        assert.match(
          await summaryOf(page),
          /^1 of 4 endpoints has been failing for \d+ (second|minute)s?; 2 webhooks are disabled; /
        )
      })
      // What another database serves waits for nobody here.
      yield* Effect.orDie(sql`UPDATE projects SET move_state = 'switched' WHERE project_id = ${projectId}`)
      yield* Effect.promise(async () => {
        await page.goto("/console")
        assert.strictEqual(await summaryOf(page), "Nothing waits for an operator; nothing is overdue.")
      })
    }
  )

  it.live("says what holds a replay", function* () {
    const server = yield* startConsole()
    const { projectId } = yield* fillProject(server)
    const browser = yield* startBrowser
    yield* Effect.orDie(server.sql`UPDATE endpoint_health SET resting_until = now() + interval '1 hour'`)
    const of = ["--project", projectId, "--installation", "shop", "--status", "all"]
    const created = ["--since", "2026-01-01T00:00:00Z", "--until", "2099-01-01T00:00:00Z"]
    // More events than the replay may have open.
    yield* Effect.orDie(server.sql`
      INSERT INTO events (project_id, id, type, data, traceparent, occurred_at)
      SELECT project_id, new_id('evt', now()), type, data, traceparent, now() FROM (
        SELECT * FROM events WHERE project_id = ${projectId} LIMIT 1
      ) event, generate_series(1, 30)`)
    yield* server.command("deliveries", "replay", ...of, ...created)
    const { page } = yield* signedIn(browser, server, { viewport: { width: 1100, height: 800 } })
    yield* Effect.promise(async () => {
      await page.goto(`/console/replays?project=${projectId}`)
      const row = await page.getByRole("row", { name: /running/ }).innerText()
      assert.match(row, /resting until in (59 minutes|1 hour)/)
      // The table is not cut.
      assert.isTrue(
        await page.evaluate(
          `(({ scrollWidth, clientWidth }) => scrollWidth === clientWidth)(document.querySelector(".scroll"))`
        )
      )
    })
  })
})
