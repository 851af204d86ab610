/**
 * Counts what a process promotes, in a file: the bytes that minor collections have moved to the old generation, and the answers.
 * The process loads this module with `--import`, and names the file in `PROMOTED`. Ended profilers hold up to 30 MiB until the next
 * full collection.
 */
import { subscribe } from "node:diagnostics_channel"
import { renameSync, writeFileSync } from "node:fs"
import { GCProfiler } from "node:v8"

export interface Promoted {
  readonly bytes: number
  readonly answers: number
}

/** Milliseconds after which the file has what was counted. */
export const interval = 250

type Heap = ReturnType<GCProfiler["stop"]>["statistics"][number]["afterGC"]

const oldGeneration = ({ heapSpaceStatistics }: Heap) =>
  heapSpaceStatistics.reduce(
    (sum, { spaceName, spaceUsedSize }) => sum + (spaceName.startsWith("new_") ? 0 : spaceUsedSize),
    0
  )

const file = process.env["PROMOTED"]
if (file !== undefined) {
  let bytes = 0
  let answers = 0
  let profiler = new GCProfiler()
  profiler.start()
  subscribe("http.server.response.finish", () => answers++)
  setInterval(() => {
    const { statistics } = profiler.stop()
    profiler = new GCProfiler()
    profiler.start()
    for (const { afterGC, beforeGC, gcType } of statistics) {
      if (gcType === "Scavenge") bytes += oldGeneration(afterGC) - oldGeneration(beforeGC)
    }
    // Renamed, because the reader could otherwise find a part of the text.
    writeFileSync(`${file}.new`, JSON.stringify({ bytes, answers } satisfies Promoted))
    renameSync(`${file}.new`, file)
  }, interval).unref()
}
