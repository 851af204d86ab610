/** An opponent: graphile-worker, set up for throughput. */
import { run } from "graphile-worker"
import { type Job, poster } from "./Post.ts"

const { DATABASE_URL: connectionString = "", IN_FLIGHT = "" } = process.env

const post = poster(process.argv[2] ?? "")

declare global {
  namespace GraphileWorker {
    interface Tasks {
      deliver: Job
    }
  }
}

await run({
  preset: {
    worker: {
      connectionString,
      concurrentJobs: Number(IN_FLIGHT),
      maxPoolSize: 10,
      localQueue: { size: 500 },
      completeJobBatchDelay: 10,
      failJobBatchDelay: 0
    }
  },
  taskList: { deliver: post }
})

process.stdout.write("listening for jobs\n")
