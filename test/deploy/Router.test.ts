/** The router of cells (`deploy/cells/haproxy.cfg`) before two servers that answer with the name of their cell. */
import { assert } from "@effect/vitest"
import { Effect, Option, Redacted } from "effect"
import { beforeAll, describe, it } from "vitest"
import { once } from "node:events"
import * as Http from "node:http"
import { join } from "node:path"
import { generate } from "../../src/http/auth/Credentials.ts"
import { send } from "../faults/Requests.support.ts"
import { defer } from "../support/Finalizers.ts"
import { freePort, runToEnd } from "../support/Process.ts"
import { isUsed, pathOf, requires } from "../support/Programs.ts"
import { eventually } from "../support/Waiting.ts"
import { folder, startRouter } from "./Router.support.ts"

/** Starts a server that answers every request with the name of its cell. */
const startCell = async (name: string) => {
  const port = await freePort()
  const server = Http.createServer((_, response) => response.end(name)).listen(port, "127.0.0.1")
  await once(server, "listening")
  defer(() => {
    server.closeAllConnections()
    server.close()
  })
  return port
}

const tokenOf = (cell: string) => Redacted.value(Effect.runSync(generate(Option.some(cell))).token)
const keyOf = (token: string) => token.slice(3, 15)

describe("the router of cells", () => {
  requires("haproxy")

  const moved = tokenOf("zz")
  let url: string

  beforeAll(async () => {
    if (!isUsed("haproxy")) return
    const router = await startRouter(await startCell("01"), await startCell("02"), `${keyOf(moved)} 02\n`)
    url = `${router.url}/api/v1/developer/crm/clients`
    await eventually(async () => {
      for (const cell of ["01", "02"]) {
        assert.strictEqual((await sendWith(`Bearer ${tokenOf(cell)}`)).text, cell)
      }
    })
  })

  const sendWith = (authorization: string) => send(url, { headers: { authorization } })

  /** Sends it twice: without a cell, the servers take turns. */
  const cellsOf = async (authorization: string) =>
    [(await sendWith(authorization)).text, (await sendWith(authorization)).text].toSorted()

  it("is a valid configuration as it stands in the folder", async () => {
    const { code, stderr } = await runToEnd(pathOf("haproxy"), ["-c", "-f", join(folder, "haproxy.cfg")])
    assert.deepStrictEqual([code, stderr.includes("WARNING")], [0, false], stderr)
  })

  it.each([
    ["the first two characters of the key id", `Bearer ${tokenOf("02")}`, "02"],
    ["any case of the scheme and several spaces", `bEARER   ${tokenOf("02")}`, "02"],
    ["the map, whatever the first characters", `Bearer ${moved}`, "02"]
  ])("picks the cell by %s", async (_, authorization, cell) => {
    assert.deepStrictEqual(await cellsOf(authorization), [cell, cell])
  })

  it.each([
    ["a token of no cell", `Bearer ${tokenOf("03")}`],
    ["a name of a cell in another case", `Bearer ${tokenOf("zz")}`],
    ["a token that is too long", `Bearer ${tokenOf("02")}0`],
    ["a token that is too short", `Bearer ${tokenOf("02").slice(0, -1)}`],
    ["a token after another word", `Bearer x ${tokenOf("02")}`],
    ["another scheme", `Basic ${tokenOf("02")}`],
    ["a tab after the scheme", `Bearer\t${tokenOf("02")}`]
  ])("leaves %s to any cell, which refuses it", async (_, authorization) => {
    assert.deepStrictEqual(await cellsOf(authorization), ["01", "02"])
  })
})
