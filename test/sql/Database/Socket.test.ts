/** Connections to PostgreSQL that carry nothing for a long time. */
import { Duration } from "effect"
import { readFile } from "node:fs/promises"
import { createServer } from "node:net"
import { assert, it } from "@effect/vitest"
import { watchedSocket } from "../../../src/sql/Connections.ts"
import { defer } from "../../support/Finalizers.ts"
import { freePort } from "../../support/Process.ts"
import { eventually } from "../../support/Waiting.ts"

/** Returns the kernel's timers of the connections to a port, from `/proc/net/tcp`; 02 is a timer of keepalives. */
const timersTo = async (port: number) => {
  const remote = `:${port.toString(16).toUpperCase().padStart(4, "0")}`
  const lines = (await readFile("/proc/net/tcp", "utf8")).split("\n").map((line) => line.trim().split(/\s+/))
  return lines.filter((fields) => fields[2]?.endsWith(remote)).map((fields) => fields[5]?.slice(0, 2))
}

it.skipIf(process.platform !== "linux")("an idle connection to PostgreSQL is kept alive by TCP", async () => {
  const port = await freePort()
  const server = createServer().listen(port, "127.0.0.1")
  const socket = watchedSocket("127.0.0.1", port, Duration.seconds(2))
  defer(() => {
    socket.destroy()
    server.close()
  })
  await eventually(async () => assert.deepStrictEqual(await timersTo(port), ["02"]))
})
