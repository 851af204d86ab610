import { Effect } from "effect"
import { readFile, stat, truncate } from "node:fs/promises"

const tooLarge = 10 * 1024 * 1024

/** Truncates a log that has grown too large. Writers append, so an open writer continues at its start. */
export const truncateIfLarge = (log: string): Effect.Effect<void> =>
  Effect.promise(async () => {
    const size = await sizeNow(log)
    if (size > tooLarge) await truncate(log).catch(() => undefined)
  })

/** Returns the current end of the log. */
export const sizeOf = (log: string): Effect.Effect<number> => Effect.promise(() => sizeNow(log))

/** Returns the lines written since `from`. */
export const linesFrom = (log: string, from: number): Effect.Effect<ReadonlyArray<string>> =>
  Effect.promise(async () => {
    const bytes = await readFile(log).catch(() => Buffer.alloc(0))
    const text = bytes.subarray(from).toString()
    return text.split("\n").filter((line) => line.trim() !== "")
  })

const sizeNow = (log: string) =>
  stat(log).then(
    ({ size }) => size,
    () => 0
  )
