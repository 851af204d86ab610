/**
 * Settings of V8 for the memory of this process, measured with `npm run bench -- memory` and `-- requests`. Without these
 * settings, the process holds 180 MiB when idle and 330 MiB under load.
 */
import { Effect } from "effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

/**
 * Changes rules of V8:
 *
 * - The old generation is collected when it has grown to 1.5 times its size after the previous collection. By default, V8 lets
 *   it grow to a multiple of the memory in use.
 * - Marking starts after 40 % of this growth. By default, it starts when the growth that is left is smaller than the young
 *   generation. That can be true right after a collection.
 * - The young generation reaches its full size at once when load begins. While it is small, V8 moves objects of requests in
 *   flight to the old generation.
 * - Pretenuring is off: no object is allocated directly in the old generation. With pretenuring, V8 predicts from a sample which
 *   objects live long, and may include the objects of requests. The old generation then fills up several times a second: a
 *   request takes up to twice the CPU time, and the p99 of the response time is four times as high.
 */
export const boundGrowth: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--heap-growing-percent=50")
  setFlagsFromString("--incremental-marking-soft-trigger=40")
  setFlagsFromString("--semi-space-growth-factor=8")
  setFlagsFromString("--no-allocation-site-pretenuring")
})

/**
 * Releases the memory that only the start of the process needed, a third of the heap. V8 releases it only in a collection of the
 * flavor `last-resort`, which pauses the process once for about 100 ms.
 */
export const releaseStart: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--expose-gc")
  const collect: unknown = runInNewContext("gc")
  if (typeof collect === "function") collect({ type: "major", execution: "sync", flavor: "last-resort" })
})
