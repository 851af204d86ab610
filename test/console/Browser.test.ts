/** The console in a browser: every page and every action. No page has a script (`Access`), so the browser runs none. */
import { assert, describe, it } from "@effect/vitest"
import axe from "axe-core"
import { Effect, Schema } from "effect"
import type { BrowserContextOptions, Page } from "playwright-core"
import { documentOf } from "../cli/Cli.support.ts"
import { startBrowser } from "../support/Browser.ts"
import { requires } from "../support/Programs.ts"
import { type Console, type FilledProject, fillProject, hostile, pagesOf, startConsole } from "./Console.support.ts"
import { makeOutage } from "./Outage.support.ts"

const Serious = Schema.Array(Schema.Struct({ id: Schema.String, impact: Schema.NullOr(Schema.String) }))

/** Returns the serious faults that axe finds on a page, by all of its rules or by one. */
const faultsOf = async (page: Page, rule?: string) => {
  const options = rule === undefined ? "{}" : `{ runOnly: ["${rule}"] }`
  const found: unknown = await page.evaluate(
    `axe.run(${options}).then(({ violations }) => violations.map(({ id, impact }) => ({ id, impact: impact ?? null })))`
  )
  return Schema.decodeUnknownSync(Serious)(found).filter(({ impact }) => impact === "serious" || impact === "critical")
}

const decodeTexts = Schema.decodeUnknownSync(Schema.Array(Schema.String))

/** Returns what does not fit: states and exact times in more than one line, rows of 595 pixels, and a page that is too wide. */
const brokenIn = async (page: Page) =>
  decodeTexts(
    await page.evaluate(`[...document.querySelectorAll(".badge, time small, tr, html")].flatMap((part) => {
      const { height } = part.getBoundingClientRect()
      const fits = part.nodeName === "HTML" ? part.scrollWidth <= innerWidth : height < (part.nodeName === "TR" ? 595 : 27)
      return fits ? [] : [part.nodeName + ": " + part.textContent.slice(0, 80)]
    })`)
  )

/** Signs in by a link, as an operator does; returns the page with its requests to other hosts. */
const signedIn = Effect.fnUntraced(function* (server: Console, options: BrowserContextOptions = {}) {
  const browser = yield* startBrowser
  const { url } = yield* server.link
  return yield* Effect.promise(async () => {
    const page = await browser.newPage({ baseURL: server.admin, ...options })
    const elsewhere: Array<string> = []
    page.on("request", (request) => {
      const { origin, protocol } = new URL(request.url())
      if (protocol !== "data:" && origin !== server.admin) elsewhere.push(request.url())
    })
    await page.goto(url)
    if (options.javaScriptEnabled !== false) {
      await page.evaluate(axe.source)
      assert.deepStrictEqual(await faultsOf(page), [], "the page of a link")
    }
    await page.getByRole("button", { name: "Sign in" }).click()
    await page.getByRole("heading", { name: "Overview" }).waitFor()
    return { page, elsewhere }
  })
})

/** Performs every action as an operator does. */
const act = async (page: Page, { dead, projectId }: FilledProject) => {
  const webhook = `/console/webhook?project=${projectId}&installation=shop`
  await page.goto(webhook)
  const press = (name: string) => page.getByRole("button", { name, exact: true }).click()
  const shows = (heading: string | RegExp) => page.getByRole("heading", { name: heading }).waitFor()
  const back = () => page.getByRole("link", { name: "Back" }).click()
  await press("Send a test event")
  await shows("The test event was delivered")
  await page.getByText("The endpoint answered with status 200").waitFor()
  await back()
  await press("Disable")
  await page.getByText("0 pending deliveries will be dead-lettered").waitFor()
  await press("Disable the webhook")
  await shows("The webhook is disabled")
  await back()
  await press("Enable")
  await shows("The webhook is enabled")
  await back()
  await page.getByRole("button", { name: "Disable" }).waitFor()

  await page.getByLabel("Created since").fill("yesterday")
  await page.getByLabel("and before").fill("2099-01-01T00:00:00Z")
  await page.getByLabel("State").selectOption("all")
  await page.getByLabel("Deliveries per second").fill("0")
  await press("Count and continue")
  await page.getByText("Created since: A time such as 2026-11-20T00:00:00Z.").waitFor()
  assert.strictEqual(await page.getByRole("alert").count(), 2)
  assert.strictEqual(await page.getByLabel("and before").inputValue(), "2099-01-01T00:00:00Z")
  assert.strictEqual(await page.getByLabel("State").inputValue(), "all")
  await page.getByLabel("Created since").fill("2026-01-01T00:00:00Z")
  await page.getByLabel("Deliveries per second").fill("1")
  await press("Count and continue")
  await page.getByText("2 deliveries match and are sent again, at most 1 a second").waitFor()
  await press("Start the replay")
  await shows(/^Replays of/)
  await press("Cancel")
  await press("Cancel the replay")
  await page
    .getByText(/cancelling|cancelled/)
    .first()
    .waitFor()

  await page.goto(`/console/deliveries?project=${projectId}&status=dead`)
  await page.getByRole("link", { name: dead.id }).click()
  await press("Retry this delivery")
  await shows("The delivery is retried")
  await back()
  await shows(`Delivery ${dead.id}`)

  for (const [message, as] of [
    ["msg_1", "sent"],
    ["msg_2", "failed"]
  ] as const) {
    await page.goto(`/console/messages?project=${projectId}&status=unknown`)
    await page.getByRole("link", { name: message }).click()
    await page.getByRole("row", { name: /timeout/ }).waitFor()
    await press(`Settle as ${as}`)
    await shows(`Settle the message ${message} as ${as}?`)
    await press(`Settle as ${as}`)
    await shows(`The message is settled as ${as}`)
    await back()
    await shows(`Message ${message}`)
    assert.strictEqual(await page.getByRole("button", { name: /^Settle/ }).count(), 0)
  }

  await page.goto(`/console/campaigns?project=${projectId}`)
  await page.getByRole("link", { name: "cmp_running" }).click()
  await page.getByText("1 of 3").waitFor()
  for (const [name, will, done] of [
    ["Pause", "The remaining 2 recipients wait until the campaign is resumed", "paused"],
    ["Resume", "The remaining 2 recipients get the message", "resumed"],
    ["Cancel", "The remaining 2 recipients do not get the message", "cancelled"]
  ] as const) {
    await press(`${name} the campaign`)
    await page.getByText("1 were sent to, 0 failed and 0 were skipped").waitFor()
    await page.getByText(will).waitFor()
    await press(`${name} the campaign`)
    await shows(`The campaign is ${done}`)
    await back()
  }
  assert.strictEqual(await page.getByRole("button", { name: /the campaign$/ }).count(), 0)
}

const Entries = Schema.Struct({
  items: Schema.Array(Schema.Struct({ actor: Schema.String, action: Schema.String, target: Schema.String }))
})

const decodeEntries = Schema.decodeUnknownSync(Entries)

describe("the console in a browser", () => {
  requires("chromium")

  it.live.each([1280, 390])(
    "shows every page at %i px without a serious accessibility fault, hostile names as text",
    (width) =>
      Effect.gen(function* () {
        const server = yield* startConsole()
        const project = yield* fillProject(server)
        const { elsewhere, page } = yield* signedIn(server, { viewport: { width, height: 800 } })
        yield* Effect.promise(async () => {
          for (const path of pagesOf(project)) {
            await page.emulateMedia({ colorScheme: "light" })
            await page.goto(path)
            await page.evaluate(axe.source)
            assert.deepStrictEqual(await faultsOf(page), [], path)
            assert.deepStrictEqual(await brokenIn(page), [], path)
            await page.emulateMedia({ colorScheme: "dark" })
            assert.deepStrictEqual(await faultsOf(page, "color-contrast"), [], path)
            assert.notStrictEqual(await page.title(), "taken")
            assert.strictEqual(await page.locator("img, script").count(), 0)
          }
        })
        yield* Effect.promise(async () => {
          for (const path of ["project", "messages", "campaigns"]) {
            await page.goto(`/console/${path}?project=${project.projectId}`)
            await page.getByText(hostile).first().waitFor()
          }
          await page.goto(`/console/delivery?project=${project.projectId}&id=${project.dead.id}`)
          const trace = await page.getByRole("link", { name: "Open the trace" }).getAttribute("href")
          assert.match(trace ?? "", /^https:\/\/traces\.example\.com\/[0-9a-f]{32}\?from=console$/)
          const attempts = await page.getByRole("table", { name: "Attempts, oldest first" }).textContent()
          assert.include(attempts ?? "", project.to.url)
        })
        assert.deepStrictEqual(elsewhere, [])
      }).pipe(Effect.scoped)
  )

  it.live("carries out every action without JavaScript, and records it", () =>
    Effect.gen(function* () {
      const server = yield* startConsole()
      const project = yield* fillProject(server)
      const { page } = yield* signedIn(server, { javaScriptEnabled: false })
      yield* Effect.promise(() => act(page, project))
      yield* project.finished
      const [retried] = yield* project.deliveries()
      assert.deepInclude(retried, { id: project.dead.id, status: "delivered" })
      const listed = documentOf(yield* server.command("audit", "list", "--project", project.projectId, "--json"))
      const { items } = decodeEntries(listed)
      assert.deepStrictEqual(
        items.map(({ action, actor }) => [actor, action]).toReversed(),
        [
          "webhook.test",
          "webhook.disable",
          "webhook.enable",
          "replay.start",
          "replay.cancel",
          "delivery.retry",
          "message.settle",
          "message.settle",
          "campaign.pause",
          "campaign.resume",
          "campaign.cancel"
        ].map((action) => ["console session", action])
      )
      yield* Effect.promise(async () => {
        await page.goto(`/console/audit?project=${project.projectId}`)
        await page.getByText("delivery.retry").waitFor()
        await page.getByRole("button", { name: "Sign out" }).click()
        await page.getByRole("heading", { name: "Sign in" }).waitFor()
        await page.goto("/console")
        await page.getByRole("heading", { name: "Sign in" }).waitFor()
      })
    }).pipe(Effect.scoped)
  )

  it.live("says what is wrong, since when and why, what an action will do, and finds every record by its id", () =>
    Effect.gen(function* () {
      const server = yield* startConsole({ WEBHOOK_TIMEOUT: "500ms" })
      const { page } = yield* signedIn(server, { javaScriptEnabled: false })
      const summary = () => page.getByRole("status").textContent()
      assert.strictEqual(yield* Effect.promise(summary), "Nothing waits for an operator; nothing is overdue.")

      const { projectId, sql } = yield* makeOutage(server)
      const [counts = assert.fail()] = yield* Effect.orDie(sql<{
        readonly dead: number
        readonly failing: number
        readonly pending: number
        readonly waiting: string
        readonly lost: string
        readonly event: string
        readonly until: Date
        readonly deal: string
        readonly key: string
      }>`
        SELECT (SELECT count(*)::int FROM deliveries WHERE status = 'dead') AS dead,
          (SELECT count(*)::int FROM endpoint_health WHERE failures > 0) AS failing,
          (SELECT count(*)::int FROM deliveries WHERE status = 'pending' AND installation_id = 'three') AS pending,
          (SELECT max(id) FROM deliveries WHERE status = 'pending' AND installation_id = 'three') AS waiting,
          (SELECT max(id) FROM deliveries WHERE status = 'dead' AND installation_id = 'three') AS lost,
          (SELECT max(event_id) FROM deliveries) AS event,
          (SELECT parked_until FROM endpoint_health WHERE installation_id = 'three') AS until,
          (SELECT max(id) FROM deals) AS deal, (SELECT max(key_id) FROM api_keys) AS key`)
      assert.strictEqual(counts.failing, 4)
      const [attempts] = yield* Effect.orDie(sql<{ readonly delivered: number; readonly failed: number }>`
        SELECT (count(*) FILTER (WHERE entry ->> 'statusCode' = '200'))::int AS delivered,
          (count(*) FILTER (WHERE coalesce(entry ->> 'statusCode', '') <> '200'))::int AS failed
        FROM deliveries, jsonb_array_elements(attempt_log) entry`)
      yield* Effect.promise(async () => {
        await page.goto("/console")
        assert.match(
          (await summary()) ?? "",
          new RegExp(
            `^4 of 6 endpoints fail, the longest for \\d+ seconds?; ${counts.dead} deliveries are dead; 2 messages need a decision; nothing is overdue\\.$`
          )
        )
        const failing = page.getByRole("table", { name: /^Failing endpoints/ })
        for (const name of ["three", "four", "five", "six"]) {
          const row = (await failing.getByRole("row", { name }).textContent()) ?? ""
          assert.include(row, name === "six" ? "timeout" : "status 500")
          assert.include(row, "parked")
        }
        await page.getByText("The same as numbers").click()
        const cells = await page
          .getByRole("table", { name: /^Attempts in slices/ })
          .locator("tbody tr")
          .allInnerTexts()
        const columns = cells.map((row) => row.split("\t").map(Number))
        const total = (column: number) => columns.reduce((sum, row) => sum + (row[column] ?? 0), 0)
        assert.deepStrictEqual({ delivered: total(1), failed: total(2) }, attempts)
        for (const chart of ["Attempts: ", "Duration of attempts"]) {
          // The numbers of both axes, and one of them with its unit.
          const labels = await page.getByRole("img", { name: chart }).locator("text").allTextContents()
          assert.isAbove(labels.length, 6, chart)
          if (chart.startsWith("Duration")) assert.match(labels.join(" "), /\d m?s/)
        }

        await failing.getByRole("link", { name: "three" }).click()
        await page.getByRole("heading", { name: "Webhook of three" }).waitFor()
        await page.getByText("parked", { exact: true }).waitFor()
        await page.getByText(/^status 500/).waitFor()
        const until = (label: string) =>
          page.locator("dl div", { hasText: label }).locator("time").first().getAttribute("datetime")
        assert.strictEqual(await until("Next attempt"), counts.until.toISOString())
        await page.goto(`/console/project?project=${projectId}`)
        assert.include((await page.getByRole("row", { name: "three" }).textContent()) ?? "", "parked")
        await page.goto(`/console/delivery?project=${projectId}&id=${counts.waiting}`)
        assert.strictEqual(await until("Next attempt"), counts.until.toISOString())
        await page.goto(`/console/delivery?project=${projectId}&id=${counts.lost}`)
        assert.isAbove(await page.getByRole("cell", { name: "ok", exact: true }).count(), 0)
        const headers = (await page.getByLabel("Headers of the request").textContent()) ?? ""
        assert.match(
          headers,
          new RegExp(`^webhook-id: ${counts.lost}\nwebhook-timestamp: \\d+\nwebhook-signature: v1,…`)
        )

        const searched: ReadonlyArray<readonly [text: string, heading: string | RegExp]> = [
          [counts.lost, `Delivery ${counts.lost}`],
          ["msg_4", "Message msg_4"],
          ["cmp_r", "Campaign Harbour Wines"],
          ["thr", "Webhook of three"],
          [counts.key, /^API keys of/],
          [counts.event, "Search"],
          [counts.deal, "Search"],
          ["cli_", "Search"]
        ]
        for (const [text, heading] of searched) {
          await page.getByRole("searchbox").fill(text)
          await page.getByRole("button", { name: "Search" }).click()
          await page.getByRole("heading", { name: heading }).waitFor()
          if (heading === "Search")
            await page
              .getByRole("row", { name: new RegExp(text) })
              .first()
              .waitFor()
        }
        assert.strictEqual(await page.locator("tbody tr").count(), 3)

        await page.goto(`/console/webhook?project=${projectId}&installation=three`)
        const press = (name: string) => page.getByRole("button", { name, exact: true }).click()
        await press("Disable")
        await page.getByText(`${counts.pending} pending deliveries will be dead-lettered`).waitFor()
        await press("Disable the webhook")
        await page.getByText(`${counts.pending} deliveries were dead-lettered`).waitFor()
        await page.goto(`/console/audit?project=${projectId}`)
        await page.getByText(`{"deadLettered":${counts.pending}}`).waitFor()
      })
    }).pipe(Effect.scoped)
  )

  it.live("says what holds a replay", () =>
    Effect.gen(function* () {
      const server = yield* startConsole()
      const project = yield* fillProject(server)
      const { page } = yield* signedIn(server, { javaScriptEnabled: false })
      yield* Effect.orDie(server.sql`UPDATE endpoint_health SET resting_until = now() + interval '1 hour'`)
      const of = ["--project", project.projectId, "--installation", "shop", "--status", "all", "--pace", "1"]
      yield* server.command(
        "deliveries",
        "replay",
        ...of,
        "--since",
        "2026-01-01T00:00:00Z",
        "--until",
        "2099-01-01T00:00:00Z"
      )
      yield* Effect.promise(async () => {
        await page.goto(`/console/replays?project=${project.projectId}`)
        const row = (await page.getByRole("row", { name: /running/ }).textContent()) ?? ""
        assert.match(row, /0 of 2/)
        assert.match(row, /at most 1 a second, so at least 2 seconds more/)
        assert.match(row, /its endpoint is\s+resting\s+until in (59 minutes|1 hour)/)
      })
    }).pipe(Effect.scoped)
  )
})
