/** A Redis server for one test, without persistence: it is empty after a restart. */
import * as Net from "node:net"
import { defer } from "../support/Finalizers.ts"
import { freePort, launch, type Launched, temporaryDirectory } from "../support/Process.ts"
import { pathOf } from "../support/Programs.ts"
import { eventually } from "../support/Waiting.ts"

export type Redis = Awaited<ReturnType<typeof makeRedis>>

/** Creates a server that is not started yet; its port is reserved. */
export const makeRedis = async (...flags: ReadonlyArray<string>) => {
  const port = await freePort()
  const directory = await temporaryDirectory()
  let running: Launched | undefined
  defer(() => running?.end())
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    /** Starts it, and waits until it answers. */
    start: async () => {
      const args = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
      running = launch(pathOf("redis"), [...args, "--dir", directory, ...flags])
      await eventually(() => ping(port))
    },
    /** Kills it, and waits until it has exited. */
    kill: async () => {
      await running?.end()
    },
    /** `SIGSTOP` makes it hang: connections stay open and new ones are accepted, but nothing is answered. */
    signal: (signal: "SIGSTOP" | "SIGCONT") => running?.kill(signal)
  }
}

const ping = (port: number) => ask(port, "PING")

/** Sends one inline command, and returns the first chunk of the answer. */
const ask = (port: number, command: string) =>
  new Promise<string>((resolve, reject) => {
    const socket = Net.connect({ host: "127.0.0.1", port, timeout: 1_000 }, () => socket.write(`${command}\r\n`))
    socket.once("data", (data) => {
      socket.destroy()
      resolve(data.toString())
    })
    socket.once("timeout", () => socket.destroy(new Error("Redis is silent")))
    socket.once("error", reject)
  })
