/** CPU affinity by `taskset`, on Linux only: the measured server gets one core, all other processes share the rest. */
import { spawnSync } from "node:child_process"
import { availableParallelism } from "node:os"
import type { Program } from "./Stage.ts"

const taskset = (args: ReadonlyArray<string>) => spawnSync("taskset", args, { stdio: "ignore" }).status === 0

const cores = availableParallelism()
const isPossible = cores > 1 && taskset(["-c", "0", "true"])

const bind = (to: string) => () => {
  if (isPossible) taskset(["-acp", to, String(process.pid)])
}

/** Excludes the servers' core from this process and from the processes that it starts later. */
export const keepOff = bind(`1-${cores - 1}`)

/** Binds this process, and the processes that it starts later, to the servers' core. */
export const keepOn = bind("0")

/** Lets this process, and the processes that it starts later, use all cores. */
export const useAll = bind(`0-${cores - 1}`)

/** Returns the program, bound to the servers' core. */
export const onOneCore = (program: Program): Program =>
  isPossible ? { ...program, command: ["taskset", "-c", "0", process.execPath] } : program
