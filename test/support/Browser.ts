/** A browser that is installed on the machine. */
import { Effect } from "effect"
import { chromium } from "playwright-core"
import { pathOf } from "./Programs.ts"

/** Starts Chromium without its background requests; it ends with the scope. */
export const startBrowser = Effect.acquireRelease(
  Effect.promise(() =>
    chromium.launch({
      executablePath: pathOf("chromium"),
      args: ["--headless", "--no-sandbox", "--disable-background-networking", "--disable-component-update"]
    })
  ),
  (browser) => Effect.promise(() => browser.close())
)
