import { eventually } from "./Waiting.ts"
/** Waiting for an end that is far away, and may be as far as it likes. */

/** Waits until nothing is left, for as long as there is less and less. */
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
