/** CPU time of processes in milliseconds, read from /proc; NaN on systems without it. A tick is 10 ms on every Linux. */
import { readdirSync, readFileSync } from "node:fs"

/** Returns the fields of /proc/PID/stat from the third on. */
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

/** Returns the user and system time of a process. */
export const cpuMillis = (pid: number): number => used(statOf(pid))

/** Returns the parent of a process. */
export const parentOf = (pid: number): number => Number(statOf(pid)[1])

/** Returns the CPU time of a process's children, including those that have ended. */
export const childrenMillis = (pid: number): number => {
  const stat = statOf(pid)
  if (stat.length === 0) return Number.NaN
  const ended = (Number(stat[13]) + Number(stat[14])) * 10
  return readdirSync("/proc")
    .map(statOf)
    .filter((child) => Number(child[1]) === pid)
    .reduce((sum, child) => sum + used(child), ended)
}
