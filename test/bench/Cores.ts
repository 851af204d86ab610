/** Cores: a server that is measured has one to itself, and everything else shares the others. Linux has `taskset` for it. */
import { spawnSync } from "node:child_process"
import { availableParallelism } from "node:os"
import type { Program } from "./Stage.ts"

const taskset = (args: ReadonlyArray<string>) => spawnSync("taskset", args, { stdio: "ignore" }).status === 0

const cores = availableParallelism()
const isPossible = cores > 1 && taskset(["-c", "0", "true"])

/** Keeps this process, and those that it starts from now on, off the core of the servers. */
export const keepOff = () => {
  if (isPossible) taskset(["-acp", `1-${cores - 1}`, String(process.pid)])
}

/** The program on a core of its own. */
export const onOneCore = (program: Program): Program =>
  isPossible ? { ...program, command: ["taskset", "-c", "0", process.execPath] } : program
