/**
 * Settings of V8 for the memory of this process, measured with `npm run bench -- memory` and `-- requests`. Without these
 * settings, the process holds 180 MiB when idle and 330 MiB under load.
 */
import { Effect } from "effect"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

/**
 * Bounds the old generation of the heap: V8 collects it when it has grown to 1.5 times its size after the previous collection.
 * By default, V8 lets the heap of a busy process grow to a multiple of what is in use.
 *
 * Lets the young generation reach its full size at once when load begins. While the young generation is small, V8 moves the
 * objects of requests in flight to the old generation. Starts marking after 40 % of the growth up to V8's limit. By default,
 * marking starts when the room that is left is smaller than the young generation. If V8 set the limit while the process was
 * idle, marking starts at once.
 *
 * Turns off pretenuring: V8 allocates objects in the old generation if it expects them to live long. Depending on the requests
 * in flight when it takes a sample, V8 may expect this of the objects of requests. The old generation then fills up several
 * times a second: a request takes up to twice the CPU time, and the p99 is four times as high.
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
