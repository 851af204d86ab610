/** An opponent: pg-boss, set up for throughput. */
import { PgBoss } from "pg-boss"
import { poster } from "./Post.ts"
import type { Job } from "./Protocol.ts"

const { DATABASE_URL: connectionString = "" } = process.env

const post = poster(process.argv[2] ?? "")

const tune: Record<string, number> = JSON.parse(process.env["TUNE"] ?? "{}")

const boss = new PgBoss({ connectionString, max: tune["pool"] ?? 10, schedule: false, useListenNotify: true })
boss.on("error", (error) => process.stderr.write(`${error.message}\n`))
await boss.start()
await boss.createQueue("deliver", { notify: true, partition: tune["part"] === 1 })
await boss.work<Job>(
  "deliver",
  {
    batchSize: tune["b"] ?? 50,
    localConcurrency: tune["w"] ?? 4,
    pollingIntervalSeconds: 0.5,
    burstWhenBatchFull: true
  },
  async (jobs) => {
    await Promise.all(jobs.map(({ data }) => post(data)))
  }
)

process.stdout.write("listening for jobs\n")
