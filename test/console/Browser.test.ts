/** The console in a browser: every page and every action. No page has a script (`Access`), so the browser runs none. */
import { assert, describe, it } from "../support/Vitest.ts"
import { userInfo } from "node:os"
import axe from "axe-core"
import { Effect, Schema } from "effect"
import type { Page } from "playwright-core"
import { documentOf } from "../cli/Cli.support.ts"
import { held } from "../contract/Messages.support.ts"
import { ok } from "../webhooks/delivery/Deliveries.support.ts"
import { startBrowser } from "../support/Browser.ts"
import { copyEvent } from "../support/Events.ts"
import { requires } from "../support/Programs.ts"
import { brokenIn, faultsOf, signedIn } from "./Browser.support.ts"
import { type FilledProject, fillProject, hostile, pagesOf, startConsole } from "./Console.support.ts"

/** Performs every action as an operator does. */
const act = async (page: Page, { answerWith, dead, projectId }: FilledProject) => {
  const webhook = `/console/webhook?project=${projectId}&installation=shop`
  await page.goto(webhook)
  const press = (name: string) => page.getByRole("button", { name, exact: true }).click()
  const shows = (heading: string | RegExp) => page.getByRole("heading", { name: heading }).waitFor()
  await press("Send a test event")
  await shows("The test event was delivered")
  await page.getByText("The endpoint answered with status 200").waitFor()
  await page.reload()
  assert.strictEqual(await page.getByText("The endpoint answered with status 200").count(), 0)
  await press("Disable")
  await page.getByText("0 pending deliveries will be dead-lettered").waitFor()
  await press("Disable the webhook")
  await shows("The webhook is disabled")
  await press("Enable")
  await shows("The webhook is enabled")
  await page.getByRole("button", { name: "Disable" }).waitFor()

  // Before the replay, which would deliver its event, and so take it out of the dead.
  await page.goto(`/console/deliveries?project=${projectId}&status=dead`)
  await page.getByRole("link", { name: dead.id }).click()
  await press("Retry this delivery")
  await shows("The delivery is retried")
  await shows(`Delivery ${dead.id}`)

  await page.goto(webhook)
  await page.getByLabel("and before").fill("2099-01-01T00:00")
  await page.getByLabel("State").selectOption("all")
  await page.getByLabel("Events since").fill("2026-01-01T00:00")
  await press("Continue")
  await page.getByText(/^The events since 2026.* are sent again to http.*, the oldest first/).waitFor()
  // The replay waits for its first attempts, and is still running when it is cancelled.
  const { answering, letGo } = held(ok)
  answerWith(answering)
  await press("Start the replay")
  await shows("The replay is started")
  // The end is that of the replay, which is not in the future.
  await page.getByText(/^Events since 2026-01-01.* and before (?!2099)/).waitFor()
  await page.goto(`/console/replays?project=${projectId}`)
  await press("Cancel")
  await press("Cancel the replay")
  await shows("The replay is cancelled")
  letGo()

  for (const [message, as] of [
    ["msg_reply_1", "sent"],
    ["msg_reply_2", "failed"]
  ] as const) {
    await page.goto(`/console/messages?project=${projectId}&status=unknown`)
    await page.getByRole("link", { name: message }).click()
    await page.getByRole("row", { name: /timeout/ }).waitFor()
    await press(`Settle as ${as}`)
    await shows(`Settle the message ${message} as ${as}?`)
    await press(`Settle as ${as}`)
    await shows(`The message is settled as ${as}`)
    await shows(`Message ${message}`)
    assert.strictEqual(await page.getByRole("button", { name: /^Settle/ }).count(), 0)
  }

  await page.goto(`/console/campaigns?project=${projectId}`)
  await page.getByRole("link", { name: "cmp_running" }).click()
  await page.getByText("1 of 3").waitFor()
  for (const [name, will, done] of [
    ["Pause", "The remaining 2 recipients wait until it is resumed", "paused"],
    ["Resume", "The remaining 2 recipients get the message", "running"],
    ["Cancel", "The remaining 2 recipients do not get the message", "cancelled"]
  ] as const) {
    await press(`${name} the campaign`)
    await page.getByText("1 were sent to, 0 failed and 0 were skipped").waitFor()
    await page.getByText(will).waitFor()
    await press(`${name} the campaign`)
    await shows(`The campaign is ${done}`)
  }
  assert.strictEqual(await page.getByRole("button", { name: /the campaign$/ }).count(), 0)
}

const Entries = Schema.Struct({
  items: Schema.Array(Schema.Struct({ actor: Schema.String, action: Schema.String, target: Schema.String }))
})

const decodeEntries = Schema.decodeUnknownSync(Entries)

describe("the console in a browser", () => {
  requires("chromium")

  it.live(
    "shows every page without a serious accessibility fault, nothing cut on a phone either, and hostile names as text",
    function* () {
      const server = yield* startConsole()
      const project = yield* fillProject(server)
      const browser = yield* startBrowser
      const [wide, phone] = [
        { width: 1280, height: 800 },
        { width: 390, height: 800 }
      ]
      const { elsewhere, page } = yield* signedIn(browser, server)
      // The widest labels of charts: counts of six digits, and durations below a second.
      yield* Effect.orDie(server.sql`
        INSERT INTO attempt_minutes (project_id, minute, worker_id, delivered, bucket, attempts)
        VALUES ('', date_trunc('minute', now()), 1, true, 38, 900000)`)
      const charts = ["1+hour", "12+hours", "7+days"].map((period) => `/console?period=${period}`)
      yield* Effect.promise(async () => {
        for (const path of [...charts, ...pagesOf(project)]) {
          await page.emulateMedia({ colorScheme: "light" })
          await page.setViewportSize(wide)
          await page.goto(path)
          await page.evaluate(axe.source)
          assert.deepStrictEqual(await faultsOf(page), [], path)
          assert.deepStrictEqual(await brokenIn(page), [], path)
          await page.emulateMedia({ colorScheme: "dark" })
          assert.deepStrictEqual(await faultsOf(page, "color-contrast"), [], path)
          await page.setViewportSize(phone)
          assert.deepStrictEqual(await brokenIn(page), [], `${path} on a phone`)
          assert.notStrictEqual(await page.title(), "taken")
          assert.strictEqual(await page.locator("img, script").count(), 0)
        }
      })
      yield* Effect.promise(async () => {
        await page.goto(`/console/messages?project=${project.projectId}`)
        await page.keyboard.press("Tab")
        const skip = page.getByRole("link", { name: "Skip to the content" })
        const shown = (await skip.boundingBox())?.y ?? -1
        assert.deepStrictEqual(
          [await page.evaluate("document.activeElement.textContent"), shown >= 0],
          ["Skip to the content", true]
        )
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        assert.strictEqual(await page.evaluate("document.activeElement.name"), "status")
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
    }
  )

  it.live("carries out every action without JavaScript, and records it", function* () {
    const server = yield* startConsole()
    const browser = yield* startBrowser
    const project = yield* fillProject(server)
    // More than a replay has pending at a time.
    yield* copyEvent(server.sql, project.projectId, 1_000)
    const { page } = yield* signedIn(browser, server, { javaScriptEnabled: false })
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
        "delivery.retry",
        "replay.start",
        "replay.cancel",
        "message.settle",
        "message.settle",
        "campaign.pause",
        "campaign.resume",
        "campaign.cancel"
      ].map((action) => [`${userInfo().username} (console)`, action])
    )
    yield* Effect.promise(async () => {
      await page.goto(`/console/audit?project=${project.projectId}`)
      await page.getByText("delivery.retry").waitFor()
      await page.getByRole("button", { name: "Sign out" }).click()
      await page.getByRole("heading", { name: "Sign in" }).waitFor()
      await page.goto("/console")
      await page.getByRole("heading", { name: "Sign in" }).waitFor()
    })
  })
})
