/**
 * Settings of V8 for the memory of this process, measured with `npm run bench -- memory` and `-- requests`, each setting by itself
 * (2026-11-28, in turns beside other work, so that ratios of CPU are known to a fifth). The process holds 138 MiB when idle and 250 MiB
 * after a minute of load.
 */
import { Effect } from "effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

/**
 * Changes rules of V8:
 *
 * - The old generation is collected when it has grown to 1.5 times its size after the previous collection. By default, V8 lets
 *   it grow to a multiple of the memory in use: the process then holds 308 MiB under load. It costs no CPU that can be measured.
 * - Pretenuring is off: no object is allocated directly in the old generation. With pretenuring, V8 predicts from a sample which
 *   objects live long, and includes objects of requests: 4,100 bytes are then promoted for a request instead of 230, three runs in turns
 *   (`test/faults/Memory.test.ts`), and a get takes 1.5 of the CPU.
 */
export const boundGrowth: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--heap-growing-percent=50")
  setFlagsFromString("--no-allocation-site-pretenuring")
})

/**
 * Releases the memory that only the start of the process needed: without this, the idle process holds 225 MiB. V8 releases it only
 * in a collection of the flavor `last-resort`, which pauses the process once for about 100 ms.
 */
export const releaseStart: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--expose-gc")
  const collect: unknown = runInNewContext("gc")
  if (typeof collect === "function") collect({ type: "major", execution: "sync", flavor: "last-resort" })
})
