/**
 * Loads `RecordingPgClient.ts` in place of the client of `@effect/sql-pg`, and `RecordingClient.ts` in place of the service's own
 * client, in this process. Loaded by `--import`, before any module that imports the clients.
 */
import { registerHooks } from "node:module"

const urlOf = (file: string) => new URL(file, import.meta.url).href

/** The modules that are replaced, by what imports them. */
const replaced = [
  { specifier: "./PgClient.js", by: "/@effect/sql-pg/dist/index.js", url: urlOf("RecordingPgClient.ts") },
  { specifier: "./Client.ts", by: "/sql/Connections.ts", url: urlOf("RecordingClient.ts") }
]

registerHooks({
  resolve: (specifier, context, next) => {
    const found = replaced.find((one) => one.specifier === specifier && context.parentURL?.endsWith(one.by) === true)
    return found === undefined ? next(specifier, context) : { url: found.url, shortCircuit: true }
  }
})
