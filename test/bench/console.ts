/** `bench console`: response time of each page of the console, in a project with a million deliveries. */
import { Clock, Effect } from "effect"
import { Command } from "effect/cli"
import { issue } from "../../src/platform/requests/auth/SignInLinks.ts"
import { json } from "../../src/cli/Flags.ts"
import { answer, table } from "../../src/cli/Output.ts"
import { freePort } from "../support/Process.ts"
import { open } from "./deliveries/Ours.ts"
import { installationId, projectId } from "./deliveries/Work.ts"
import { fixed, median, ranged, spread } from "./Figures.ts"
import { count, type Findings, progress } from "./Options.ts"
import { BenchFailed, connect, database, service, start } from "./Stage.ts"
import { store } from "./Stored.ts"

export interface Options {
  readonly deliveries: number
  readonly rounds: number
}

export const usual: Options = { deliveries: 1_000_000, rounds: 10 }

const installations = 50
const hour = 3_600_000

/** Returns the path of every page, and of the lists with their most expensive filters. */
const pages = (deliveryId: string, now: number): Readonly<Record<string, string>> => {
  const project = `project=${projectId}`
  const at = (ago: number) => new Date(now - ago).toISOString()
  return {
    overview: "/console",
    projects: "/console/projects",
    project: `/console/project?${project}`,
    webhook: `/console/webhook?${project}&installation=${installationId(7)}`,
    deliveries: `/console/deliveries?${project}`,
    "deliveries, dead": `/console/deliveries?${project}&status=dead`,
    "deliveries, none of the type": `/console/deliveries?${project}&type=crm.task.completed.v1`,
    "deliveries, of one installation": `/console/deliveries?${project}&installation=${installationId(7)}&status=delivered`,
    "deliveries, weeks ago": `/console/deliveries?${project}&since=${at(500 * hour)}&until=${at(400 * hour)}`,
    delivery: `/console/delivery?${project}&id=${deliveryId}`,
    replays: `/console/replays?${project}`,
    messages: `/console/messages?${project}`,
    "messages, unknown": `/console/messages?${project}&status=unknown`,
    campaigns: `/console/campaigns?${project}`,
    search: "/console/search?q=dlv_",
    "search, one project": `/console/search?${project}&q=${deliveryId.slice(0, 12)}`,
    keys: `/console/keys?${project}`,
    audit: `/console/audit?${project}`
  }
}

/** Fetches a whole page and returns the duration in milliseconds. */
const timed = Effect.fnUntraced(function* (url: string, cookie: string) {
  const started = yield* Clock.currentTimeNanos
  const answered = yield* Effect.promise(() => fetch(url, { headers: { cookie } }))
  const text = yield* Effect.promise(() => answered.text())
  if (answered.status !== 200) return yield* new BenchFailed({ message: `${answered.status} ${text.slice(0, 500)}` })
  return Number((yield* Clock.currentTimeNanos) - started) / 1e6
})

export const measure = Effect.fnUntraced(function* ({ deliveries, rounds }: Options) {
  yield* progress("starting PostgreSQL and the service")
  const url = yield* database({})
  const sql = yield* connect(url)
  const urls = Array.from({ length: installations }, () => "http://127.0.0.1:9/")
  yield* open(sql, projectId, urls, { subscribed: installations })
  yield* progress(`storing ${deliveries} deliveries`)
  yield* store(sql, { projectId, count: deliveries, days: 28, installations, deadEvery: 1_000 })
  const port = yield* Effect.promise(freePort)
  yield* start(service("ours"), url, { ADMIN_PORT: String(port) })
  const admin = `http://127.0.0.1:${port}`
  const [link] = yield* issue(sql)
  const body = new URLSearchParams({ code: link?.code ?? "" })
  const entered = yield* Effect.promise(() =>
    fetch(`${admin}/console/enter`, { method: "POST", body, redirect: "manual" })
  )
  const cookie = entered.headers.get("set-cookie")?.split(";")[0] ?? ""
  const [one] = yield* sql<{ readonly id: string }>`
    SELECT id FROM deliveries WHERE project_id = ${projectId} ORDER BY id LIMIT 1 OFFSET 1000`

  const found: Array<{ readonly name: string; readonly first: number; readonly millis: ReadonlyArray<number> }> = []
  for (const [name, path] of Object.entries(pages(one?.id ?? "", yield* Clock.currentTimeMillis))) {
    const first = yield* timed(admin + path, cookie)
    const millis: Array<number> = []
    for (let round = 0; round < rounds; round++) millis.push(yield* timed(admin + path, cookie))
    yield* progress(`console: ${name}: ${median(millis).toFixed(0)} ms`)
    found.push({ name, first, millis })
  }
  const head = ["PAGE", "MS", "THE FIRST"]
  const lines = found.map(({ first, millis, name }) => [name, ranged(millis, 0), fixed(first, 0)])
  const findings: Findings = {
    document: {
      settings: { deliveries, rounds, node: process.version },
      pages: found.map(({ first, millis, name }) => ({ name, first, millis: spread(millis) }))
    },
    text: table([head, ...lines])
  }
  return findings
}, Effect.scoped)

export const command = Command.make(
  "console",
  {
    json,
    deliveries: count("deliveries", usual.deliveries, "Deliveries of the project"),
    rounds: count("rounds", usual.rounds, "Times that each page is opened")
  },
  Effect.fnUntraced(function* ({ json, ...options }) {
    const { document, text } = yield* measure(options)
    yield* answer(json, document, text)
  })
).pipe(Command.withDescription("How long each page of the console takes in a project of a million deliveries"))
