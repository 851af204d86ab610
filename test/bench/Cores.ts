/** CPU affinity by `taskset`, on Linux only: the measured server gets one core, all other processes share the rest. */
import { spawnSync } from "node:child_process"
import { availableParallelism } from "node:os"
import type { Program } from "./Stage.ts"

const taskset = (args: ReadonlyArray<string>) => spawnSync("taskset", args, { stdio: "ignore" }).status === 0

const cores = availableParallelism()
const isPossible = cores > 1 && taskset(["-c", "0", "true"])

/** Excludes the servers' core from this process and from the processes that it starts later. */
export const keepOff = () => {
  if (isPossible) taskset(["-acp", `1-${cores - 1}`, String(process.pid)])
}

/** Returns the program, bound to the servers' core. */
export const onOneCore = (program: Program): Program =>
  isPossible ? { ...program, command: ["taskset", "-c", "0", process.execPath] } : program
