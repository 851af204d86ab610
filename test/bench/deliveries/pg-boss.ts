/** An opponent: pg-boss, set up for throughput. */
import { PgBoss } from "pg-boss"
import { poster } from "./Post.ts"
import type { Job } from "./Protocol.ts"

const { DATABASE_URL: connectionString = "", IN_FLIGHT = "" } = process.env

/** Fetchers, each of which runs a batch of jobs at a time. */
const fetchers = 4

const post = poster(process.argv[2] ?? "")

const boss = new PgBoss({ connectionString, max: 10, schedule: false, useListenNotify: true })
boss.on("error", (error) => process.stderr.write(`${error.message}\n`))
await boss.start()
await boss.createQueue("deliver", { notify: true })
await boss.work<Job>(
  "deliver",
  {
    batchSize: Number(IN_FLIGHT) / fetchers,
    localConcurrency: fetchers,
    pollingIntervalSeconds: 0.5,
    burstWhenBatchFull: true
  },
  async (jobs) => {
    await Promise.all(jobs.map(({ data }) => post(data)))
  }
)

process.stdout.write("listening for jobs\n")
