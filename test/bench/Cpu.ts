/** CPU time of processes, in milliseconds, where there is a /proc; NaN elsewhere. A tick is 10 ms on every Linux. */
import { readdirSync, readFileSync } from "node:fs"

/** The fields of /proc/PID/stat from the third on. */
const statOf = (pid: number | string): ReadonlyArray<string> => {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /, "")
      .split(" ")
  } catch {
    return []
  }
}

const used = (stat: ReadonlyArray<string>) => (Number(stat[11]) + Number(stat[12])) * 10

/** User and system time of a process. */
export const cpuMillis = (pid: number): number => used(statOf(pid))

/** The process that has started another. */
export const parentOf = (pid: number): number => Number(statOf(pid)[1])

/** That of the processes that a process has started, those that have ended included. */
export const childrenMillis = (pid: number): number => {
  const stat = statOf(pid)
  if (stat.length === 0) return Number.NaN
  return readdirSync("/proc")
    .map(statOf)
    .filter((child) => Number(child[1]) === pid)
    .reduce((sum, child) => sum + used(child), (Number(stat[13]) + Number(stat[14])) * 10)
}
