/**
 * The operator's commands: `npm run --silent cli -- <command>`.
 *
 * Node keeps compiled modules in a cache between runs, as in `main.ts`.
 */
import { enableCompileCache } from "node:module"
import { fileURLToPath } from "node:url"

enableCompileCache(fileURLToPath(new URL("../node_modules/.cache/developer-api", import.meta.url)))

// Imported dynamically, because static imports would be loaded before the cache is enabled.
const { commandsFor } = await import("./cli/Commands.ts")
const { run } = await import("./cli/Run.ts")

run(await commandsFor(process.argv.slice(2)))
