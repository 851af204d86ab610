/**
 * `bench console`: response time of each page of the console, in a project with a million deliveries, a hundred thousand messages
 * and a thousand campaigns. The pages take turns, so that what the machine does besides affects all of them alike.
 */
import { Clock, Effect } from "effect"
import { Command } from "effect/cli"
import { issue } from "../../src/platform/requests/auth/SignInLinks.ts"
import { json } from "../../src/cli/Flags.ts"
import { answer, table } from "../../src/cli/Output.ts"
import { freePort } from "../support/Process.ts"
import { open } from "./deliveries/Ours.ts"
import { installationId, projectId } from "./deliveries/Work.ts"
import { fixed, quantile, ranged, round, spread } from "./Figures.ts"
import { count, type Findings, progress } from "./Options.ts"
import { BenchFailed, connect, database, service, start } from "./Stage.ts"
import { store, storeMessaging } from "./Stored.ts"

export interface Options {
  readonly deliveries: number
  readonly rounds: number
}

export const usual: Options = { deliveries: 1_000_000, rounds: 100 }

const installations = 50
const hour = 3_600_000

/** Records of the project. */
interface Ids {
  readonly delivery: string
  readonly message: string
  readonly campaign: string
}

/** Returns the path of every page, and of the lists with their most expensive filters. */
const pages = (ids: Ids, now: number): Readonly<Record<string, string>> => {
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
    delivery: `/console/delivery?${project}&id=${ids.delivery}`,
    replays: `/console/replays?${project}`,
    messages: `/console/messages?${project}`,
    "messages, unknown": `/console/messages?${project}&status=unknown`,
    "messages, needs decision": `/console/messages?${project}&status=needs+decision`,
    "messages, none of the state": `/console/messages?${project}&status=failed`,
    message: `/console/message?${project}&id=${ids.message}`,
    campaigns: `/console/campaigns?${project}`,
    "campaigns, paused": `/console/campaigns?${project}&status=paused`,
    campaign: `/console/campaign?${project}&id=${ids.campaign}`,
    search: "/console/search?q=dlv_",
    "search, one project": `/console/search?${project}&q=${ids.delivery.slice(0, 12)}`,
    "search, messages": `/console/search?${project}&q=msg_`,
    "search, campaigns": "/console/search?q=cmp_",
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
  yield* storeMessaging(sql, {
    projectId,
    messages: Math.ceil(deliveries / 10),
    campaigns: Math.ceil(deliveries / 1_000)
  })
  // Otherwise it falls into the first rounds.
  yield* sql`CHECKPOINT`
  const port = yield* Effect.promise(freePort)
  yield* start(service("ours"), url, { ADMIN_PORT: String(port) })
  const admin = `http://127.0.0.1:${port}`
  const [link] = yield* issue(sql)
  const body = new URLSearchParams({ code: link?.code ?? "" })
  const entered = yield* Effect.promise(() =>
    fetch(`${admin}/console/enter`, { method: "POST", body, redirect: "manual" })
  )
  const cookie = entered.headers.get("set-cookie")?.split(";")[0] ?? ""
  const [ids] = yield* sql<Ids>`
    SELECT (SELECT min(id) FROM deliveries) AS delivery, (SELECT max(id) FROM messages WHERE status = 'unknown') AS message,
      (SELECT max(id) FROM campaigns) AS campaign`
  if (ids === undefined) return yield* new BenchFailed({ message: "nothing is stored" })

  // The first page of a process opens a connection and runs code that was never run.
  const firstOfAll = yield* timed(`${admin}/console/keys?project=${projectId}`, cookie)
  const found = yield* Effect.forEach(
    Object.entries(pages(ids, yield* Clock.currentTimeMillis)),
    Effect.fnUntraced(function* ([name, path]) {
      return { name, path, first: yield* timed(admin + path, cookie), millis: new Array<number>() }
    })
  )
  for (let done = 1; done <= rounds; done++) {
    for (const { millis, path } of found) millis.push(yield* timed(admin + path, cookie))
    if (done % 10 === 0) yield* progress(`console: round ${done}`)
  }
  const p95 = (millis: ReadonlyArray<number>) => quantile(millis, 0.95)
  const head = ["PAGE", "MS", "P95", "THE FIRST"]
  const lines = found.map(({ first, millis, name }) => [
    name,
    ranged(millis, 0),
    fixed(p95(millis), 0),
    fixed(first, 0)
  ])
  const findings: Findings = {
    document: {
      firstPageOfProcess: round(firstOfAll),
      settings: { deliveries, rounds, node: process.version },
      pages: found.map(({ first, millis, name }) => ({
        name,
        first: round(first),
        millis: spread(millis),
        p95: round(p95(millis)),
        slowest: millis.indexOf(Math.max(...millis)) + 1
      }))
    },
    text: table([head, ["the first page after the start", "-", "-", fixed(firstOfAll, 0)], ...lines])
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
