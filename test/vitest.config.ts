import { defineConfig } from "vitest/config"
import { Summary } from "./support/Summary.ts"

/** Tests that kill, upgrade, pack and install, or load tens of thousands of records: up to minutes each. */
const faults = [
  "test/faults/**/*.test.ts",
  "test/client/Pack.test.ts",
  "test/platform/EmbeddedPostgres*.test.ts",
  "test/**/*.size.test.ts",
  "test/sql/*.test.ts"
]

export default defineConfig({
  test: {
    reporters: ["default", new Summary()],
    globalSetup: ["test/support/globalSetup.ts"],
    setupFiles: ["test/support/hooks.ts"],
    // Files share their worker's modules: loading them again costs more than most files take.
    isolate: false,
    // Far more than any test takes on an idle machine.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // For two cores, one of which PostgreSQL uses.
    maxWorkers: 2,
    projects: [
      {
        extends: true,
        test: { name: "main", include: ["test/**/*.test.ts"], exclude: [...faults, "**/node_modules/**"] }
      },
      { extends: true, test: { name: "faults", include: faults } }
    ]
  }
})
