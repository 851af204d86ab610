/** The manuals as pages in a browser. */
import { assert, describe, it } from "../support/Vitest.ts"
import axe from "axe-core"
import { Effect } from "effect"
import { brokenIn, faultsOf } from "../console/Browser.support.ts"
import { startBrowser } from "../support/Browser.ts"
import { requires } from "../support/Programs.ts"
import { startServer } from "../support/TestServer.ts"

describe("the manuals in a browser", () => {
  requires("chromium")

  it.live("have no serious accessibility fault, light or dark, and fit a phone", function* () {
    const { url } = yield* startServer({}, "api")
    const browser = yield* startBrowser
    yield* Effect.promise(async () => {
      const page = await browser.newPage({ baseURL: url })
      for (const path of ["/contract", "/client", "/agents"]) {
        await page.emulateMedia({ colorScheme: "light" })
        await page.setViewportSize({ width: 1280, height: 800 })
        await page.goto(path)
        await page.evaluate(axe.source)
        assert.deepStrictEqual(await faultsOf(page), [], path)
        await page.emulateMedia({ colorScheme: "dark" })
        assert.deepStrictEqual(await faultsOf(page, "color-contrast"), [], path)
        await page.setViewportSize({ width: 390, height: 800 })
        assert.deepStrictEqual(await faultsOf(page), [], `${path} on a phone`)
        assert.deepStrictEqual(await brokenIn(page), [], `${path} on a phone`)
      }
    })
  })
})
