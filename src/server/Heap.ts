/**
 * Settings of V8 for the memory of this process, measured with `npm run bench -- memory` and `-- requests`. Without them it
 * holds 180 MiB when idle and 330 MiB under load.
 */
import { Effect } from "effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

/**
 * Bounds the old generation of the heap: V8 collects it when it is 1.5 times as large as after the last collection. By
 * default it lets the heap of a busy process grow to a multiple of what is in use.
 *
 * Lets the young generation reach its full size at once when load begins. While it is small, V8 moves what requests in flight
 * refer to into the old generation. Marking begins after 40 % of the growth up to V8's limit, which includes the size of the young
 * generation. By default it begins when less than that size is left, which is at once if the limit was set while the process was idle.
 *
 * Turns off pretenuring, by which V8 allocates objects with a long expected lifetime in the old generation. It misjudges
 * objects of requests, depending on what is in flight when it samples. The old generation then fills up several times a
 * second: a request takes up to twice the CPU time, and the p99 is four times as high.
 */
export const boundGrowth: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--heap-growing-percent=50")
  setFlagsFromString("--incremental-marking-soft-trigger=40")
  setFlagsFromString("--semi-space-growth-factor=8")
  setFlagsFromString("--no-allocation-site-pretenuring")
})

/**
 * Releases the memory that only the start of the process needed, a third of its heap. V8 does so only in a collection of this
 * flavor; the pause is some 100 ms, once.
 */
export const releaseStart: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--expose-gc")
  const collect: unknown = runInNewContext("gc")
  if (typeof collect === "function") collect({ type: "major", execution: "sync", flavor: "last-resort" })
})
