/** The console in a browser: its sign-in, and what is wrong with a page that it shows. */
import { assert } from "@effect/vitest"
import axe from "axe-core"
import { Effect, Schema } from "effect"
import type { Browser, BrowserContextOptions, Page } from "playwright-core"
import type { Console } from "./Console.support.ts"

const Serious = Schema.Array(Schema.Struct({ id: Schema.String, impact: Schema.NullOr(Schema.String) }))

/** Returns the serious faults that axe finds on a page, by all of its rules or by one. */
export const faultsOf = async (page: Page, rule?: string) => {
  const options = rule === undefined ? "{}" : `{ runOnly: ["${rule}"] }`
  const found: unknown = await page.evaluate(
    `axe.run(${options}).then(({ violations }) => violations.map(({ id, impact }) => ({ id, impact: impact ?? null })))`
  )
  return Schema.decodeUnknownSync(Serious)(found).filter(({ impact }) => impact === "serious" || impact === "critical")
}

const decodeTexts = Schema.decodeUnknownSync(Schema.Array(Schema.String))

/**
 * Returns what does not fit: states and exact times in more than one line, rows of 595 pixels, a page that is too wide, and labels of
 * charts that are cut or overlap; and what could turn the direction of the text beside it.
 */
export const brokenIn = async (page: Page) => {
  // A heading is shown before the style sheet has arrived.
  await page.waitForLoadState("load")
  return decodeTexts(
    await page.evaluate(`[...document.querySelectorAll(".badge, time small, tr, html")].flatMap((part) => {
      const { height } = part.getBoundingClientRect()
      const fits = part.nodeName === "HTML" ? part.scrollWidth <= innerWidth : height < (part.nodeName === "TR" ? 595 : 27)
      return fits ? [] : [part.nodeName + ": " + part.textContent.slice(0, 80)]
    }).concat([...document.querySelectorAll("h1, th, td, dt, dd, a, code, .project")].flatMap((part) =>
      getComputedStyle(part).unicodeBidi === "isolate" ? [] : [part.nodeName + " is not isolated"]
    )).concat([...document.querySelectorAll("svg")].flatMap((chart) => {
      const box = (part) => part.getBoundingClientRect()
      const overlap = (one, two) =>
        one.left < two.right && two.left < one.right && one.top < two.bottom && two.top < one.bottom
      return [...chart.querySelectorAll("text")].flatMap((label, at, labels) => {
        const isCut = box(label).left < box(chart).left || box(label).right > box(chart).right
        const hides = labels.slice(at + 1).some((other) => overlap(box(label), box(other)))
        return isCut || hides ? ["label: " + label.textContent] : []
      })
    }))`)
  )
}

/** Signs in by a link, as an operator does; returns the page with its requests to other hosts. */
export const signedIn = Effect.fnUntraced(function* (
  browser: Browser,
  server: Console,
  options: BrowserContextOptions = {}
) {
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
