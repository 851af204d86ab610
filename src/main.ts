/**
 * `npm start` runs the service. `npm start -- --role api` runs only its HTTP part.
 *
 * Node keeps compiled modules in a cache between starts, with their types already stripped: a start takes half the CPU time, and
 * a process about 15 MB less. The folder of the cache is below this package, so other users cannot write into it. `npm start`
 * also names the folder in NODE_COMPILE_CACHE, so that this file comes from the cache, too: otherwise Node loads its type
 * stripper for this file alone, which takes 90 ms of CPU and 10 MB.
 */
import { enableCompileCache } from "node:module"
import { fileURLToPath } from "node:url"

enableCompileCache(fileURLToPath(new URL("../node_modules/.cache/developer-api", import.meta.url)))

// Imported after the cache is enabled: static imports would be loaded before it.
const { run } = await import("./cli/Runner.ts")
const { serveAs } = await import("./cli/commands/serve.ts")

run(serveAs("npm start --"))
