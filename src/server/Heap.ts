/**
 * Settings of V8 for the memory of this process, measured with `npm run bench -- memory` and `-- requests`. Without these
 * settings, the process holds 184 instead of 134 MiB when idle and 246 to 303 instead of 213 to 226 MiB under load, and a request
 * takes 1.0 to 1.25 of the CPU (2026-11-28, in turns beside other work).
 */
import { Effect } from "effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

/**
 * Changes rules of V8:
 *
 * - The old generation is collected when it has grown to 1.5 times its size after the previous collection. By default, V8 lets
 *   it grow to a multiple of the memory in use.
 * - The young generation reaches its full size at once when load begins. While it is small, V8 moves objects of requests in
 *   flight to the old generation.
 * - Pretenuring is off: no object is allocated directly in the old generation. With pretenuring, V8 predicts from a sample which
 *   objects live long, and includes objects of requests: 4,100 bytes are then promoted for a request instead of 230, three runs in turns
 *   (`test/faults/Memory.test.ts`).
 */
export const boundGrowth: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--heap-growing-percent=50")
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
