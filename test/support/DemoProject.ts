/** The demo project, as an operator has it. */
import { readFileSync } from "node:fs"
import { join } from "node:path"

export const demoText = readFileSync(join(import.meta.dirname, "../../src/project/demo.json"), "utf8")
