/** The router of cells (`deploy/cells/haproxy.cfg`), with the ports of a test. */
import { readFileSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { checkout, freePort, spawn, temporaryDirectory } from "../support/Process.ts"
import { pathOf } from "../support/Programs.ts"

export const folder = join(checkout, "deploy/cells")

/** Starts the router before the cells 01 and 02, with these lines in its map. */
export const startRouter = async (first: number, second: number, lines: string) => {
  const [port, directory] = [await freePort(), await temporaryDirectory()]
  const config = readFileSync(join(folder, "haproxy.cfg"), "utf8")
    .replaceAll("127.0.0.1:8000", `127.0.0.1:${port}`)
    .replaceAll("127.0.0.1:3101", `127.0.0.1:${first}`)
    .replaceAll("127.0.0.1:3102", `127.0.0.1:${second}`)
    .replace("unix@haproxy.sock", `unix@${join(directory, "haproxy.sock")}`)
  await writeFile(join(directory, "haproxy.cfg"), config)
  const map = readFileSync(join(folder, "cells.map"), "utf8")
  const write = (lines: string) => writeFile(join(directory, "cells.map"), `${map}${lines}`)
  await write(lines)
  // As `systemctl` starts it, so that it can be reloaded.
  const router = spawn(pathOf("haproxy"), ["-W", "-db", "-f", join(directory, "haproxy.cfg")])
  return {
    url: `http://127.0.0.1:${port}`,
    /** Replaces the lines of the map, and reloads the router. */
    lead: async (lines: string) => {
      await write(lines)
      router.kill("SIGUSR2")
    }
  }
}
