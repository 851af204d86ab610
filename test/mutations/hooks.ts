/**
 * Makes the mutation of the environment, in the tests' processes and in those that tests start. Loaded by `--import`, before the
 * source.
 */
import { registerHooks } from "node:module"

const { MUTATION_FILE: file = "", MUTATION_FROM: from = "", MUTATION_TO: to = "" } = process.env

registerHooks({
  load: (url, context, next) => {
    const loaded = next(url, context)
    return file !== "" && url.endsWith(`/src/${file}`)
      ? { ...loaded, source: String(loaded.source).replaceAll(from, to) }
      : loaded
  }
})
