import { defineConfig } from "vitest/config"
import { judgesMissing } from "./support/Judges.ts"
import { LongestFirst } from "./support/Longest.ts"
import { Summary } from "./support/Summary.ts"

/** Tests that kill, upgrade, pack and install, or load tens of thousands of records: up to minutes each. */
const faults = [
  "test/faults/**/*.test.ts",
  "test/client/Pack.test.ts",
  "test/sql/embedded/EmbeddedPostgres*.test.ts",
  "test/**/*.size.test.ts",
  "test/plans/*.test.ts"
]

const skipped = judgesMissing === undefined ? [] : [`test/judges skipped: ${judgesMissing}`]
const left = ["**/node_modules/**", ...(judgesMissing === undefined ? [] : ["test/judges/**"])]

export default defineConfig({
  test: {
    reporters: ["default", new Summary(skipped)],
    globalSetup: ["test/support/globalSetup.ts"],
    setupFiles: ["test/support/hooks.ts"],
    // Files share their worker's modules: loading them again costs more than most files take.
    isolate: false,
    // Modules are loaded by Node itself, as in the service. Vite's module runner takes more time.
    experimental: { viteModuleRunner: false },
    // Far more than any test takes on an idle machine.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    sequence: { sequencer: LongestFirst },
    // For two cores: tests often wait, for an answer, a poll, a browser or a restart.
    maxWorkers: 3,
    projects: [
      {
        extends: true,
        test: {
          name: "main",
          include: ["test/**/*.test.ts"],
          exclude: [...faults, ...left],
          // The projects run one after the other.
          sequence: { groupOrder: 0 }
        }
      },
      { extends: true, test: { name: "faults", include: faults, exclude: left, sequence: { groupOrder: 1 } } }
    ]
  }
})
