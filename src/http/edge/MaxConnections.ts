/**
 * Bounds the open connections of a server, so that file descriptors are left for PostgreSQL, calls to others and files. Idle
 * connections end before new ones are refused.
 */
import { readFileSync } from "node:fs"
import type { Server } from "node:http"

/** The bound where the limit of open files is large. A connection takes 14 KiB of memory. */
const most = 20_000

/** The limit of open files where the system does not tell it. */
const usualFiles = 1_024

/** Part of the limit of open files that the connections of one server may take. The main and the admin server take half. */
const share = 1 / 4

const openFiles = (): number => {
  try {
    return Number(/^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1] ?? Infinity)
  } catch {
    return usualFiles
  }
}

/** Milliseconds between two times at which idle connections end. */
const pause = 250

export const boundConnections = (server: Server): void => {
  server.maxConnections = Math.min(most, Math.floor(openFiles() * share))
  let open = 0
  let next = 0
  server.on("connection", (socket) => {
    open++
    socket.once("close", () => open--)
    if (open < 0.9 * server.maxConnections || performance.now() < next) return
    next = performance.now() + pause
    server.closeIdleConnections()
  })
}
