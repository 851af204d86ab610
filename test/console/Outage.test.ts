/** An outage in a browser: its pages, and the way from one to the next. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Page } from "playwright-core"
import { startBrowser } from "../support/Browser.ts"
import { copyEvent } from "../support/Events.ts"
import { requires } from "../support/Programs.ts"
import { brokenIn, signedIn } from "./Browser.support.ts"
import { fillProject, startConsole } from "./Console.support.ts"
import { answer, makeOutage } from "./Outage.support.ts"

/** The records of an outage to which pages lead. */
const recordsOf = (sql: SqlClient.SqlClient) =>
  sql<{
    readonly until: Date
    readonly waiting: string
    readonly lost: string
    readonly event: string
    readonly deal: string
    readonly key: string
    readonly message: string
  }>`
    SELECT (SELECT parked_until FROM endpoint_health WHERE installation_id = 'three') AS until,
      (SELECT max(id) FROM deliveries WHERE status = 'pending' AND installation_id = 'three') AS waiting,
      (SELECT max(id) FROM deliveries WHERE status = 'dead' AND installation_id = 'three') AS lost,
      (SELECT max(event_id) FROM deliveries) AS event, (SELECT max(id) FROM deals) AS deal,
      (SELECT max(key_id) FROM api_keys) AS key, (SELECT id FROM messages WHERE campaign_id IS NOT NULL) AS message`.pipe(
    Effect.orDie,
    Effect.map(([records = assert.fail()]) => records)
  )
type Records = Effect.Success<ReturnType<typeof recordsOf>>

/** Looks for the causes of an outage as an operator does. `Overview` compares the numbers of the overview with the database. */
const read = async (page: Page, projectId: string, records: Records) => {
  const open = async (path: string) => {
    await page.goto(path)
    assert.deepStrictEqual(await brokenIn(page), [], path)
  }
  await open("/console")
  assert.match((await page.getByRole("status").textContent()) ?? "", /^4 of 6 endpoints fail, the longest for /)
  for (const chart of ["Attempts: ", "Duration of attempts"]) {
    // The numbers of both axes, and one of them with its unit; a slice is drawn even if it is the only one.
    const drawn = page.getByRole("img", { name: chart })
    const labels = await drawn.locator("text").allTextContents()
    assert.isAbove(labels.length, 6, chart)
    if (chart.startsWith("Duration")) assert.match(labels.join(" "), /\d m?s/)
    assert.isAbove(await drawn.locator("rect, circle").count(), 1, chart)
  }
  await page
    .getByRole("table", { name: /^Failing endpoints/ })
    .getByRole("link", { name: "three" })
    .click()
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
  const expected = [records.until.toISOString(), true]
  assert.deepStrictEqual(await shown("Next attempt"), expected)
  await open(`/console/project?project=${projectId}`)
  assert.include((await page.getByRole("row", { name: "three" }).textContent()) ?? "", "parked")
  await open(`/console/delivery?project=${projectId}&id=${records.waiting}`)
  assert.deepStrictEqual(await shown("Next attempt"), expected)
  await open(`/console/delivery?project=${projectId}&id=${records.lost}`)
  assert.include(await page.locator("[data-name=Answer]").allInnerTexts(), answer)
  assert.match(
    (await page.getByLabel(/^Headers of attempt/).textContent()) ?? "",
    new RegExp(`^webhook-id: ${records.lost}\nwebhook-timestamp: \\d+\nwebhook-signature: v1,…`)
  )
  await open(`/console/message?project=${projectId}&id=${records.message}`)
  await page.getByText("The provider has accepted it.").waitFor()
  await page.getByRole("cell", { name: `sandbox_${records.message}` }).waitFor()
  await page.locator("dl").getByRole("link", { name: "cmp_running" }).click()
  await page.getByRole("heading", { name: "Campaign Harbour Wines" }).waitFor()
  await page.getByText("1 of 3").waitFor()

  const searched: ReadonlyArray<readonly [text: string, heading: string | RegExp]> = [
    [records.lost, `Delivery ${records.lost}`],
    ["msg_reply_4", "Message msg_reply_4"],
    ["cmp_r", "Campaign Harbour Wines"],
    ["thr", "Webhook of three"],
    [records.key, `Key ${records.key}`],
    [records.event, `Event ${records.event}`],
    [records.deal, `Deal ${records.deal}`],
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

describe("an outage in the console", () => {
  requires("chromium")

  it.live("says what is wrong, since when and why, on a phone too, and finds every record by its id", function* () {
    const server = yield* startConsole({ WEBHOOK_TIMEOUT: "500ms", WEBHOOK_KEEP_ALLOWED_ANSWERS: "true" })
    const browser = yield* startBrowser
    // No page has a script (`Access`), so the browser runs none.
    const { page } = yield* signedIn(browser, server, { viewport: { width: 390, height: 800 } })
    assert.strictEqual(
      yield* Effect.promise(() => page.getByRole("status").textContent()),
      "Nothing waits for an operator; nothing is overdue."
    )
    const { projectId, sql } = yield* makeOutage(server)
    const records = yield* recordsOf(sql)
    yield* Effect.promise(() => read(page, projectId, records))
  })

  it.live("says what holds a replay", function* () {
    const server = yield* startConsole()
    const { projectId } = yield* fillProject(server)
    const browser = yield* startBrowser
    yield* Effect.orDie(server.sql`UPDATE endpoint_health SET resting_until = now() + interval '1 hour'`)
    const of = ["--project", projectId, "--installation", "shop", "--status", "all"]
    const created = ["--since", "2026-01-01T00:00:00Z", "--until", "2099-01-01T00:00:00Z"]
    // More events than the replay may have open.
    yield* copyEvent(server.sql, projectId, 30)
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
