/** The demo project, as an operator has it. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { ProjectFile } from "../../src/project/ProjectFile.ts"

export const demoText = readFileSync(join(import.meta.dirname, "../../src/project/demo.json"), "utf8")

export const demoProjectFile: (typeof ProjectFile)["Encoded"] = JSON.parse(demoText)
