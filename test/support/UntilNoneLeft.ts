import { eventually } from "./Waiting.ts"
/** Waiting of unlimited length, as long as there is progress. */

/** Waits until nothing is left; fails if the number stops decreasing. */
export const untilNoneLeft = async (count: () => Promise<number>): Promise<void> => {
  let left = await count()
  while (left > 0) {
    left = await eventually(async () => {
      const now = await count()
      if (now >= left) throw new Error(`${now} are left, and no less`)
      return now
    })
  }
}
