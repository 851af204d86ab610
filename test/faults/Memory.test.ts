/** The memory of a service under lasting load: `MINUTES=10` compares the tenth minute with the first. */
import { assert } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { it } from "vitest"
import { interval, type Promoted } from "../bench/Promoted.ts"
import { pipelines } from "../contract/Deals.support.ts"
import { residentMebibytes, startService, temporaryDirectory } from "../support/Process.ts"
import { load, report, request, type LoadRequest } from "./Load.support.ts"
import { database, project, serviceEnv } from "./Projects.support.ts"

const minutes = Number(process.env["MINUTES"] ?? 0.4)
/** Parts of the run, after each of which the memory is read. */
const parts = 10
const rate = 1_000

const crm = "/api/v1/developer/crm"
const plenty = { limit: 1_000_000, windowSeconds: 1 }

it("a service under mixed load holds at most 230 MiB, at the end at most 1.2 times that after a minute, and promotes at most 1.5 KB a request and 2 KB a list", async () => {
  const databaseUrl = await database()
  const token = await project(databaseUrl, {
    project: {
      rateLimits: { read: plenty, write: plenty, messages: plenty },
      contactCapacity: 1_000_000_000,
      defaultPipelineId: "sales"
    },
    pipelines,
    clients: Array.from({ length: 100 }, (_, n) => ({ id: `c${n}`, displayName: `C ${n}` })),
    channels: [{ id: "channel", providerType: "sandbox", displayName: "Sandbox" }],
    conversations: [{ id: "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8", channelId: "channel", address: "a" }]
  })
  const file = join(await temporaryDirectory(), "promoted.json")
  const preload = new URL("../bench/Promoted.ts", import.meta.url).href
  const service = await startService({
    env: { ...serviceEnv(databaseUrl), NODE_OPTIONS: `--import ${preload}`, PROMOTED: file }
  })
  const promoted = async (): Promise<Promoted> => {
    await sleep(2 * interval)
    return JSON.parse(readFileSync(file, "utf8"))
  }
  const messages = "/api/v1/developer/messaging/conversations/0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8/messages"
  const tool = (name: string, args: object) =>
    request("POST", "/mcp", token, undefined, {
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { name, arguments: args }
    })
  const list = (): LoadRequest => ({ name: "list", bytes: request("GET", `${crm}/clients?limit=50`, token) })
  let sent = 0
  const mix: ReadonlyArray<(key: string) => LoadRequest> = [
    (key) => ({ name: "get", bytes: request("GET", `${crm}/clients/c${key.length}`, token) }),
    list,
    (key) => ({ name: "create", bytes: request("POST", `${crm}/clients`, token, key, { displayName: key }) }),
    (key) => ({ name: "deal", bytes: request("POST", `${crm}/deals`, token, key, { title: key }) }),
    (key) => ({ name: "send", bytes: request("POST", messages, token, key, { text: key }) }),
    () => ({ name: "replay", bytes: request("POST", `${crm}/clients`, token, "replayed", { displayName: "R" }) }),
    () => ({ name: "refused", bytes: request("POST", `${crm}/clients`, token, "refused1", { displayName: 1 }) }),
    () => ({ name: "missing", bytes: request("GET", `${crm}/clients/nobody`, token) }),
    () => ({ name: "tool list", bytes: tool("listClients", { limit: 50 }) }),
    (key) => ({
      name: "tool create",
      bytes: tool("createClient", { idempotencyKey: key, body: { displayName: key } })
    })
  ]
  const nextRequest = (): LoadRequest => {
    const n = sent++
    return (mix[n % mix.length] ?? assert.fail())(`memory-${n}`)
  }
  const held: Array<number> = []
  let half = await promoted()
  for (let part = 0; part < parts; part++) {
    // What is compiled and cached in the first half is promoted rightly.
    if (part === parts / 2) half = await promoted()
    const done = await load({ url: service.url, nextRequest, seconds: (minutes * 60) / parts, rate, connections: 50 })
    held.push(residentMebibytes(service.pid))
    if (part === parts - 1) console.log(report(done))
    assert.deepStrictEqual([...done.answers.keys()].toSorted(), [
      "create 201",
      "deal 201",
      "get 200",
      "list 200",
      "missing 404",
      "refused 400",
      "replay 201",
      "send 200",
      "tool create 200",
      "tool list 200"
    ])
  }
  const { answers, bytes } = await promoted()
  const perAnswer = (bytes - half.bytes) / (answers - half.answers)
  console.log(`${perAnswer.toFixed(0)} bytes are promoted for an answer`)
  assert.isAtMost(perAnswer, 1_500)
  const { answers: lists } = await load({ url: service.url, nextRequest: list, seconds: 5, rate, connections: 50 })
  assert.deepStrictEqual([...lists.keys()], ["list 200"])
  const ofLists = await promoted()
  const perList = (ofLists.bytes - bytes) / (ofLists.answers - answers)
  console.log(`${perList.toFixed(0)} bytes are promoted for a list`)
  assert.isAtMost(perList, 2_048)
  console.log(`MiB after each tenth of ${minutes} minutes: ${held.map((mebibytes) => mebibytes.toFixed(0)).join(", ")}`)
  assert.isAtMost(Math.max(...held), 230)
  // Absent in a run of less than a minute, in which a process is still warming up.
  const afterMinute = held[Math.ceil(parts / minutes) - 1]
  if (afterMinute !== undefined) assert.isAtMost(held.at(-1) ?? Number.NaN, 1.2 * afterMinute)
}, 900_000)
