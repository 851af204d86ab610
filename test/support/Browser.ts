/** A browser of the machine. */
import { Effect } from "effect"
import { chromium } from "playwright-core"
import { pathOf } from "./Programs.ts"

/** Starts Chromium, without what it would ask of its own; it ends with the scope. */
export const startBrowser = Effect.acquireRelease(
  Effect.promise(() =>
    chromium.launch({
      executablePath: pathOf("chromium"),
      args: ["--headless", "--no-sandbox", "--disable-background-networking", "--disable-component-update"]
    })
  ),
  (browser) => Effect.promise(() => browser.close())
)
