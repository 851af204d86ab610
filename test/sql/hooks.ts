/**
 * Loads `RecordingPgClient.ts` in place of the client of `@effect/sql-pg`, in this process. Loaded by
 * `--import`, before any module that imports the client.
 */
import { registerHooks } from "node:module"

const recording = new URL("RecordingPgClient.ts", import.meta.url).href

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === "./PgClient.js" && context.parentURL?.endsWith("/@effect/sql-pg/dist/index.js") === true
      ? { url: recording, shortCircuit: true }
      : next(specifier, context)
})
