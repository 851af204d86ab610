/** The reference in a browser, and against the service's answers. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import type { Page } from "playwright-core"
import { expect } from "vitest"
import { startBrowser } from "../support/Browser.ts"
import { assertDocumented } from "../support/Documented.ts"
import { freePort } from "../support/Process.ts"
import { requires } from "../support/Programs.ts"
import { startServer } from "../support/TestServer.ts"
import { openShell, startFirst, tour } from "../support/Tour.ts"

const run = promisify(execFile)

describe("the OpenAPI document", () => {
  it("fails the check of answers when an answer differs from it", () => {
    const path = "/api/v1/developer/crm/clients?limit=1"
    const unlimited = { "x-request-id": "r", "content-type": "application/json" }
    const headers = { ...unlimited, ratelimit: "", "ratelimit-policy": "" }
    const answer = (json: unknown, status = 200) => ({ status, headers, json, text: JSON.stringify(json) })
    const page = { items: [], nextCursor: null }
    assertDocumented({ path }, answer(page))
    assert.throws(() => assertDocumented({ path }, answer({ ...page, total: 0 })), /as documented/)
    assert.throws(() => assertDocumented({ path }, answer({ items: [] })), /as documented/)
    assert.throws(() => assertDocumented({ path }, answer(page, 202)), /Not documented/)
    assert.throws(() => assertDocumented({ path }, { ...answer(page), headers: unlimited }), /ratelimit/)
  })
})

/** Tools and products of the maker of the viewer, which the reference does not show. */
const productsOfItsMaker = /Generate SDK|\$\d+\/mo|^Share$|^Configure$|API Client|Developer Tools|Scalar|Ask AI/im

const visibleText = (page: Page) => Effect.promise(() => page.locator("body").innerText())

/**
 * Returns the samples in shell of all operations, in the order of the reference, as text to paste. They are opened in the page: a
 * browser takes seconds to find an element by its role on a page with all samples.
 */
const samplesOf = async (page: Page) => {
  let samples: ReadonlyArray<string> = []
  const opened = async () => {
    samples = await page.evaluate<ReadonlyArray<string>>(`(() => {
      document.querySelector("button[aria-label^='Show all ']")?.click()
      const blocks = [...document.querySelectorAll("pre")].filter(({ textContent }) => textContent.startsWith("curl "))
      return blocks.map(({ innerText }) => innerText)
    })()`)
    return samples.length
  }
  await expect.poll(opened, { timeout: 100_000, interval: 250 }).toBe(48)
  return samples
}

/** Lists the codes and patterns with an underscore, and whether each line has two pixels of room for it. */
const underscoresOf = (page: Page) =>
  page.evaluate<ReadonlyArray<string>>(`(() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    const found = new Set()
    while (texts.nextNode()) {
      const text = texts.currentNode
      const range = document.createRange()
      range.selectNodeContents(text)
      const line = text.parentElement.closest(".markdown-summary, .property-detail-value")
      const { bottom, height } = range.getBoundingClientRect()
      if (line === null || height === 0 || !text.textContent.includes("_")) continue
      found.add(text.textContent.trim() + (bottom + 2 > line.getBoundingClientRect().bottom ? " is cut off" : " is whole"))
    }
    return [...found]
  })()`)

/** Runs a command in a shell and returns the status and the code of the answer. */
const paste = async (command: string, token: string) => {
  const { stdout } = await run("sh", ["-c", `${command.trim()} --silent --write-out '\\n%{http_code}'`], {
    env: { ...process.env, TOKEN: token }
  })
  const [status, body] = [stdout.slice(-3), stdout.slice(0, -4)]
  return `${status} ${JSON.parse(body).code ?? ""}`.trim()
}

/** Starts a service for the first time, and follows the README. */
const startWithTour = async () => {
  const started = await startFirst()
  const receiver = String(await freePort())
  const all = [started.exported, ...tour.map(({ pasted }) => pasted)].join("\n")
  await openShell(started.env)(all.replaceAll("8080", receiver))
  return started
}

describe("/docs", () => {
  requires("chromium")
  requires("curl")

  it.live("sends a request with the token that the reader enters, and shows samples that can be pasted", () =>
    Effect.gen(function* () {
      const toured = yield* Effect.forkChild(Effect.promise(startWithTour))
      const { token, url } = yield* Effect.promise(startFirst)
      const browser = yield* startBrowser
      const page = yield* Effect.promise(() => browser.newPage())
      const { answer, filtered, languages, samples, texts } = yield* Effect.promise(async () => {
        // Another name of the host is another origin, to which a browser sends nothing from here.
        await page.goto(`${url.replace("127.0.0.1", "localhost")}/docs`)
        await page.getByRole("textbox", { name: "Bearer Token" }).first().fill(token)
        await page.getByRole("button", { name: "Shell", exact: true }).first().click()
        const languages = await page.getByRole("option").allInnerTexts()
        await page.keyboard.press("Escape")
        const answered = page.waitForResponse(/\/api\/v1\//)
        await page.getByRole("button", { name: "Test Request (get /api/v1/developer/crm/clients/{clientId})" }).click()
        await page
          .getByLabel("API Client")
          .getByRole("button", { name: /^Send get request/ })
          .click()
        const answer = await answered
        await page.getByText("Mara Quill").first().waitFor()
        await page.keyboard.press("Escape")
        // Not before, as each step takes longer on a page with all samples.
        const samples = await samplesOf(page)
        const texts = await underscoresOf(page)
        const listed = page.waitForRequest(/\/deliveries/)
        await page.getByRole("button", { name: /^Test Request \(get .*\/deliveries\)$/ }).click()
        await page
          .getByLabel("API Client")
          .getByRole("button", { name: /^Send get request/ })
          .click()
        const filtered = new URL((await listed).url()).search
        return { answer, filtered, languages, samples, texts }
      })
      assert.strictEqual(answer.status(), 200)
      // A filter that the reader has not chosen is not sent.
      assert.strictEqual(filtered, "?status=all&limit=50")
      assert.include(texts, "idempotency_key_reused is whole")
      assert.include(texts, "^[A-Za-z0-9][A-Za-z0-9._:-]{7,159}$ is whole")
      assert.notInclude(texts.join("\n"), "is cut off")
      assert.include(yield* visibleText(page), '"displayName": "Ada Lovelace"')
      assert.notInclude(yield* visibleText(page), '"string"')
      assert.deepStrictEqual(languages, ["Shell", "JavaScript", "Python", "PHP"])
      assert.notInclude(samples.join("\n"), "x-request-id")
      // Other samples name the client that the sample of its erase removes.
      const erases = (sample: string) => /^curl --request DELETE '[^']*\/crm\/clients\/[^/']+'/.test(sample)
      for (const service of [{ token, url }, yield* Fiber.join(toured)]) {
        const answers: Array<string> = []
        for (const sample of [...samples.filter((sample) => !erases(sample)), ...samples.filter(erases)]) {
          const own = sample.replace(/http:\/\/[^/]+/, service.url)
          answers.push(yield* Effect.promise(() => paste(own, service.token)))
        }
        // The demo project has no delivery: the description of the operations tells how to find one.
        assert.deepStrictEqual(
          answers.filter((answer) => !/^20[01]$/.test(answer)),
          ["404 delivery_not_found", "400 webhook_reference_invalid", "404 replay_not_found"]
        )
      }
    }).pipe(Effect.scoped)
  )

  it.live(
    "renders without a request to another host; on a phone too it sends a new key each time and shows the status",
    () =>
      Effect.gen(function* () {
        const { seed, url } = yield* startServer()
        const { token } = yield* seed()
        const browser = yield* startBrowser
        const page = yield* Effect.promise(() => browser.newPage())
        const asked = new Set<string>()
        const failures: Array<string> = []
        page.on("request", (request) => {
          const { origin, protocol } = new URL(request.url())
          if (protocol !== "data:" && protocol !== "blob:") asked.add(origin)
        })
        page.on("pageerror", (error) => failures.push(error.message))
        // The browser reports a violated content security policy, and an icon that is not found, on its console only.
        page.on("console", (message) => {
          if (message.type() === "error") failures.push(message.text())
        })
        yield* Effect.promise(async () => {
          await page.goto(`${url}/docs`, { waitUntil: "networkidle" })
          await page.getByText("Create a client").first().waitFor()
          await page.getByText("Idempotency").first().waitFor()
        })
        assert.notMatch(yield* visibleText(page), productsOfItsMaker)
        yield* Effect.promise(async () => {
          await page.setViewportSize({ width: 390, height: 844 })
          await page.getByRole("button", { name: "Open Menu" }).click()
        })
        assert.notMatch(yield* visibleText(page), productsOfItsMaker)
        // A phone does not scroll sideways, and a search engine has one sentence to show.
        assert.strictEqual(yield* Effect.promise(() => page.evaluate("document.documentElement.scrollWidth")), 390)
        assert.deepStrictEqual(
          yield* Effect.promise(() =>
            page.evaluate(`[...document.querySelectorAll("meta[name$=description]")].map(({ content }) => content)`)
          ),
          ["The project-scoped developer API: CRM, messaging, campaigns and integrations."]
        )
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Close Menu" }).click()
          await page.getByRole("textbox", { name: "Bearer Token" }).first().fill(token)
          await page.getByRole("button", { name: "Test Request (post /api/v1/developer/crm/clients)" }).click()
          const client = page.getByLabel("API Client")
          const send = async () => {
            const sent = page.waitForRequest(/\/crm\/clients$/)
            await client.getByRole("button", { name: /^Send post request/ }).click()
            return (await sent).headers()["idempotency-key"]
          }
          const keys = [await send()]
          const status = client.getByText("201 Created")
          await status.waitFor()
          await expect.poll(() => status.boundingBox().then((box) => (box?.y ?? Infinity) < 844)).toBe(true)
          keys.push(await send())
          assert.strictEqual(new Set(keys).size, 2, keys.join(" "))
        })
        assert.deepStrictEqual([...asked], [url])
        assert.deepStrictEqual(failures, [])

        // Injected markup is neither run nor loaded, and nothing is sent to another origin.
        const smuggled = yield* Effect.promise(() =>
          page.evaluate(`(async () => {
          const script = document.createElement("script")
          script.textContent = "globalThis.smuggled = true"
          document.body.append(script)
          const elsewhere = await fetch("http://127.0.0.2:9/").then(() => "answered", () => "refused")
          return [globalThis.smuggled === true, elsewhere]
        })()`)
        )
        assert.deepStrictEqual(smuggled, [false, "refused"])
        assert.isAtLeast(failures.length, 2)
      }).pipe(Effect.scoped)
  )
})
