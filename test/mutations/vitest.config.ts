/** The configuration of the tests, with one mutation of the source from the environment. `hooks.ts` makes it in other processes. */
import { mergeConfig } from "vitest/config"
import base from "../vitest.config.ts"

const { MUTATION_FILE: file = "", MUTATION_FROM: from = "", MUTATION_TO: to = "" } = process.env

export default mergeConfig(base, {
  // The cache identifies a module by its text, without its mutation.
  test: { fsModuleCache: false },
  plugins: [
    {
      name: "mutation",
      enforce: "pre",
      transform: (code: string, id: string) =>
        file !== "" && id.endsWith(`/src/${file}`) ? code.replaceAll(from, to) : null
    }
  ]
})
