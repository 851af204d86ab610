/** The tour of the README: every block is pasted into one shell, in order, and prints the answer that follows it. */
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { freePort } from "./support/Process.ts"
import { blocks, openShell, readme, start, startFirst, tour } from "./support/Tour.ts"
import { eventually } from "./support/Waiting.ts"

/** Replaces what differs from run to run: ids, times, counters, and header lines of the connection. */
const stable = (text: string) =>
  text
    .replaceAll("\r", "")
    .replaceAll(/^(?:content-length|date|connection|keep-alive): .*\n/gim, "")
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "<uuid>")
    .replaceAll(/_[0-9a-f]{32}/g, "_<id>")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "<time>")
    .replaceAll(/;r=\d+;t=\d+/g, ";r=<n>;t=<n>")
    .trimEnd()

describe("the tour of the README", () => {
  it("starts with the two commands of the package", () => {
    assert.strictEqual(start?.pasted, "npm ci\nnpm start\n")
    assert.include(readme, "listening on http://127.0.0.1:3000")
  })

  it("runs as pasted, and prints what it shows", async () => {
    const { env, exported } = await startFirst()
    const paste = openShell(env)
    const receiver = String(await freePort())
    await paste(exported)
    let console = ""
    for (const { answer, pasted } of tour) {
      const printed = await paste(pasted.replaceAll("8080", receiver))
      if (answer !== undefined) {
        await eventually(() => assert.strictEqual(stable(printed()).replaceAll(receiver, "8080"), stable(answer)))
      }
      assert.notInclude(printed(), "urn:developer-api:problem", pasted)
      if (pasted.includes("cli -- console")) console = printed()
    }
    const link = /^http:\S+$/m.exec(console)?.[0] ?? ""
    assert.strictEqual((await fetch(link)).status, 200)
  })

  it("has the signing secret whenever its subscription is pasted", async () => {
    const { env, exported } = await startFirst()
    const paste = openShell(env)
    await paste(exported)
    const subscribe = tour.find(({ pasted }) => pasted.includes("SECRET="))?.pasted ?? assert.fail()
    const secretAfter = async (block: string) => {
      const printed = await paste(`${block}\necho "secret=$SECRET."`)
      return await eventually(() => /^secret=(.*)\.$/m.exec(printed())?.[1] ?? assert.fail(printed()))
    }
    const secret = await secretAfter(subscribe)
    assert.match(secret, /^whsec_[A-Za-z0-9+/]+=*$/)
    assert.strictEqual(await secretAfter(subscribe), secret)
    // In another terminal, which never had it.
    assert.strictEqual(await secretAfter(`unset SECRET\n${subscribe}`), secret)
  })

  it("has no other block that could be pasted", () => {
    assert.lengthOf(readme.slice(0, readme.indexOf("## Where to read on")).match(/^```sh$/gm) ?? [], blocks.length)
    assert.isAbove(tour.filter(({ answer }) => answer !== undefined).length, 4)
  })
})
