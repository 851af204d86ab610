/** `npm run pictures`: makes an outage, and takes the pictures of `deploy/CONSOLE.md` of the console that shows it. */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { startBrowser } from "../support/Browser.ts"
import { startPostgres } from "../support/Postgres.ts"
import { startConsole } from "./Console.support.ts"
import { makeOutage } from "./Outage.support.ts"

const folder = join(import.meta.dirname, "../../deploy/pictures")

/** Walks through the outage as an operator does. `take` takes a picture of what the browser shows. */
const walk = async (page: Page, take: (name: string) => Promise<unknown>) => {
  const press = (name: string) => page.getByRole("button", { name, exact: true }).click()
  const open = (name: string | RegExp) => page.getByRole("link", { name }).first().click()
  await press("Sign in")
  await page.getByRole("heading", { name: "Overview" }).waitFor()
  await take("1-overview")
  await open("three")
  await page.getByRole("heading", { name: "Webhook of three" }).waitFor()
  await take("2-webhook")
  await page.getByRole("link", { name: "dead", exact: true }).last().click()
  await page.getByRole("heading", { name: /^Deliveries of/ }).waitFor()
  await page.locator("tbody tr").first().getByRole("link").first().click()
  await page.getByRole("heading", { name: /^Delivery / }).waitFor()
  await take("3-delivery")
  await open("three")
  await page.getByLabel("Events since").fill("2026-01-01T00:00")
  await page.getByLabel("and before").fill("2099-01-01T00:00")
  await press("Continue")
  await page.getByRole("heading", { name: /^Replay dead events to/ }).waitFor()
  await take("4-replay")
  await press("Start the replay")
  await page.getByRole("link", { name: "Replays" }).click()
  await page.getByRole("heading", { name: /^Replays of/ }).waitFor()
  await take("5-progress")
}

const program = Effect.gen(function* () {
  const postgres = yield* Effect.acquireRelease(
    Effect.promise(() => startPostgres()),
    ({ stop }) => Effect.promise(stop)
  )
  const server = yield* startConsole({ DATABASE_URL: postgres.url, WEBHOOK_TIMEOUT: "500ms" })
  const { url } = yield* server.link
  const browser = yield* startBrowser
  yield* makeOutage(server)
  yield* Effect.promise(async () => {
    await mkdir(folder, { recursive: true })
    const page = await browser.newPage({
      baseURL: server.admin,
      viewport: { width: 1100, height: 760 },
      javaScriptEnabled: false
    })
    await page.goto(url)
    await walk(page, (name) => page.screenshot({ path: join(folder, `${name}.png`) }))
  })
})

NodeRuntime.runMain(Effect.scoped(program))
