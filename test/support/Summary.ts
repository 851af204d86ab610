/**
 * The last lines of a test run: why tests and files were skipped, and the ten slowest files of a run with more than ten. The run fails
 * if its tests, or code in their process, print text of the form of a secret.
 */
import type { Reporter, TestModule } from "vitest/node"
import { secretsIn } from "./Secrets.ts"

const skipped = (modules: ReadonlyArray<TestModule>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const module of modules) {
    for (const test of module.children.allTests("skipped")) {
      const result = test.result()
      const note = (result.state === "skipped" ? result.note : undefined) ?? "no reason given"
      counts.set(note, (counts.get(note) ?? 0) + 1)
    }
  }
  return counts
}

export class Summary implements Reporter {
  readonly #printed = new Array<string>()
  readonly #skippedFiles: ReadonlyArray<string>

  constructor(skippedFiles: ReadonlyArray<string>) {
    this.#skippedFiles = skippedFiles
  }

  onUserConsoleLog({ content }: { readonly content: string }): void {
    this.#printed.push(...secretsIn(content))
  }

  onTestRunEnd(modules: ReadonlyArray<TestModule>): void {
    const notes = [...skipped(modules)].map(([note, count]) => `${count} skipped: ${note}`)
    const lines = [...notes, ...this.#skippedFiles]
    if (modules.length > 10) {
      const slowest = modules
        .map((module) => [module.diagnostic().duration, module.relativeModuleId] as const)
        .toSorted(([a], [b]) => b - a)
      lines.push("Slowest files:")
      for (const [millis, file] of slowest.slice(0, 10))
        lines.push(`${(millis / 1000).toFixed(1).padStart(7)} s  ${file}`)
    }
    if (this.#printed.length > 0) {
      lines.push("Secrets were printed:", ...new Set(this.#printed))
      process.exitCode = 1
    }
    if (lines.length > 0) console.log(`\n${lines.join("\n")}`)
  }
}
