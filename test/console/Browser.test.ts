/** The console in a browser: every page and every action. No page has a script (`Access`), so the browser runs none. */
import { assert, describe, it } from "@effect/vitest"
import axe from "axe-core"
import { Effect, Schema } from "effect"
import type { BrowserContextOptions, Page } from "playwright-core"
import { documentOf } from "../cli/Cli.support.ts"
import { startBrowser } from "../support/Browser.ts"
import { hang, open, receiver, status } from "../integrations/Deliveries.support.ts"
import { requires } from "../support/Programs.ts"
import { untilRows } from "../support/Waiting.ts"
import { type Console, type FilledProject, fillProject, hostile, pagesOf, startConsole } from "./Console.support.ts"

const Serious = Schema.Array(Schema.Struct({ id: Schema.String, impact: Schema.NullOr(Schema.String) }))

/** Returns the serious faults that axe finds on a page, by all of its rules or by one. */
const faultsOf = async (page: Page, rule?: string) => {
  const options = rule === undefined ? "{}" : `{ runOnly: ["${rule}"] }`
  const found: unknown = await page.evaluate(
    `axe.run(${options}).then(({ violations }) => violations.map(({ id, impact }) => ({ id, impact: impact ?? null })))`
  )
  return Schema.decodeUnknownSync(Serious)(found).filter(({ impact }) => impact === "serious" || impact === "critical")
}

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
    await page.goto(`/console/messages?project=${projectId}`)
    await page
      .getByRole("row", { name: new RegExp(message) })
      .getByRole("button", { name: `Settle as ${as}` })
      .click()
    await shows(`Settle the message ${message} as ${as}?`)
    await press(`Settle as ${as}`)
    await shows(`The message is settled as ${as}`)
    await back()
  }
  await page.getByText("No messages").waitFor()
}

const created = "crm.deal.created.v1"

const Entries = Schema.Struct({
  items: Schema.Array(Schema.Struct({ actor: Schema.String, action: Schema.String, target: Schema.String }))
})

const decodeEntries = Schema.decodeUnknownSync(Entries)

describe("the console in a browser", () => {
  requires("chromium")

  it.live("shows every page without a serious accessibility fault, hostile names as text, and uses no other host", () =>
    Effect.gen(function* () {
      const server = yield* startConsole()
      const project = yield* fillProject(server)
      const { elsewhere, page } = yield* signedIn(server)
      yield* Effect.promise(async () => {
        for (const path of pagesOf(project)) {
          await page.emulateMedia({ colorScheme: "light" })
          await page.goto(path)
          await page.evaluate(axe.source)
          assert.deepStrictEqual(await faultsOf(page), [], path)
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
          "message.settle"
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

  it.live("says in one sentence what is wrong, and lists the endpoints that fail, and counts every attempt", () =>
    Effect.gen(function* () {
      const server = yield* startConsole({ WEBHOOK_TIMEOUT: "500ms" })
      const { page } = yield* signedIn(server, { javaScriptEnabled: false })
      const summary = () => page.getByRole("status").textContent()
      assert.strictEqual(yield* Effect.promise(summary), "Nothing waits for an operator; nothing is overdue.")

      const [well, broken, hanging] = [yield* receiver(), yield* receiver(status(500)), yield* receiver(hang)]
      const endpoints = { one: well, two: well, three: broken, four: broken, five: broken, six: hanging }
      const project = yield* open(server, Object.keys(endpoints))
      for (const [name, { url }] of Object.entries(endpoints)) yield* project.subscribe(name, url, [created])
      for (let n = 0; n < 4; n++) yield* project.created()
      // Ten failures in a row park an endpoint.
      yield* untilRows(project.health("three"), ({ parkedUntil }) => parkedUntil !== null)
      yield* untilRows(project.deliveries("six"), (rows) => rows.some(({ status }) => status === "dead"))
      // What is still tried would be counted between the two reads.
      yield* Effect.orDie(
        server.sql`UPDATE endpoint_health SET parked_until = now() + interval '1 hour' WHERE failures > 0`
      )
      yield* untilRows(
        Effect.orDie(server.sql`SELECT FROM deliveries WHERE status = 'delivering'`),
        (rows) => rows.length === 0
      )
      const [counts] = yield* Effect.orDie(server.sql<{ readonly dead: number; readonly failing: number }>`
        SELECT (SELECT count(*)::int FROM deliveries WHERE status = 'dead') AS dead,
          (SELECT count(*)::int FROM endpoint_health WHERE failures > 0) AS failing`)
      assert.strictEqual(counts?.failing, 4)
      const [attempts] = yield* Effect.orDie(server.sql<{ readonly delivered: number; readonly failed: number }>`
        SELECT (count(*) FILTER (WHERE entry ->> 'statusCode' = '200'))::int AS delivered,
          (count(*) FILTER (WHERE coalesce(entry ->> 'statusCode', '') <> '200'))::int AS failed
        FROM deliveries, jsonb_array_elements(attempt_log) entry`)
      yield* Effect.promise(async () => {
        await page.goto("/console")
        assert.match(
          (await summary()) ?? "",
          new RegExp(
            `^4 of 6 endpoints fail, the longest for \\d+ seconds?; ${counts?.dead} deliveries are dead; nothing is overdue\\.$`
          )
        )
        const failing = page.getByRole("table", { name: /^Failing endpoints/ })
        for (const name of ["three", "four", "five", "six"]) {
          const row = (await failing.getByRole("row", { name }).textContent()) ?? ""
          assert.include(row, name === "six" ? "timeout" : "status 500")
        }
        await page.getByText("The same as numbers").click()
        const cells = await page
          .getByRole("table", { name: /^Attempts in slices/ })
          .locator("tbody tr")
          .allInnerTexts()
        const columns = cells.map((row) => row.split("\t").map(Number))
        const total = (column: number) => columns.reduce((sum, row) => sum + (row[column] ?? 0), 0)
        assert.deepStrictEqual({ delivered: total(1), failed: total(2) }, attempts)
        await failing.getByRole("link", { name: "three" }).click()
        await page.getByRole("heading", { name: "Webhook of three" }).waitFor()
        await page.getByText("parked").first().waitFor()
      })
    }).pipe(Effect.scoped)
  )
})
