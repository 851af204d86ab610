/**
 * An opponent: pg-boss, set up for throughput. Jobs are fetched ahead and completed in batches, by its own `fetch` and
 * `complete`: its `work` waits for the slowest job of a batch before it fetches another. A NOTIFY starts a fetch, as in `work`.
 */
import { createHash } from "node:crypto"
import pg from "pg"
import { PgBoss } from "pg-boss"
import { type Job, poster } from "./Post.ts"

const { DATABASE_URL: connectionString = "", IN_FLIGHT = "" } = process.env

const queue = "deliver"
const inFlight = Number(IN_FLIGHT)
/** Maximum number of jobs that a fetch takes, and number of waiting jobs below which the next fetch starts. */
const batchSize = 256
const low = 128
/** Maximum time in milliseconds between two fetches, and time for which completed jobs gather. */
const pollEvery = 500
const gatherFor = 10

const post = poster(process.argv[2] ?? "")

const report = (error: unknown) => void process.stderr.write(`${String(error)}\n`)

const boss = new PgBoss({ connectionString, max: 10, schedule: false })
boss.on("error", report)
await boss.start()
await boss.createQueue(queue, { notify: true })

type Fetched = Awaited<ReturnType<typeof boss.fetch<Job>>>[number]

const waiting: Array<Fetched> = []
let running = 0
let completed: Array<string> = []
let isFetching = false
/** Whether a fetch may find something: after a full batch, a notice or the interval. */
let isPromising = true

const complete = () => {
  boss.complete(queue, completed).catch(report)
  completed = []
}

const run = async ({ data, id }: Fetched) => {
  try {
    await post(data)
    if (completed.push(id) === 1) setTimeout(complete, gatherFor)
  } catch (error) {
    await boss.fail(queue, id, { message: String(error) }).catch(report)
  }
  running--
  next()
}

/** Starts waiting jobs, and fetches more when few are left. */
const next = () => {
  while (running < inFlight) {
    const job = waiting.shift()
    if (job === undefined) break
    running++
    void run(job)
  }
  if (isPromising && !isFetching && waiting.length < low) void fetchMore()
}

const fetchMore = async () => {
  isFetching = true
  isPromising = false
  try {
    const jobs = await boss.fetch<Job>(queue, { batchSize })
    waiting.push(...jobs)
    isPromising ||= jobs.length === batchSize
  } catch (error) {
    report(error)
  }
  isFetching = false
  next()
}

const promise = () => {
  isPromising = true
  next()
}

const listener = new pg.Client({ connectionString })
await listener.connect()
listener.on("notification", promise)
await listener.query(`LISTEN pgboss_${createHash("sha224").update("pgboss").digest("hex").slice(0, 24)}`)
setInterval(promise, pollEvery)

process.stdout.write("listening for jobs\n")
