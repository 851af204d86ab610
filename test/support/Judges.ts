/**
 * The packages of `test/judges`: programs that judge the reference, the client and the endpoint of agents. They have an
 * installation of their own, as they are many and only a few tests need them.
 */
import { existsSync } from "node:fs"
import { join } from "node:path"

/** Whether every test has to run. It is here because the configuration of Vitest, which reads this file, can't import Vitest. */
export const isContinuousIntegration = (process.env["CI"] ?? "") !== ""

/** The folder of the packages. */
export const judges = join(import.meta.dirname, "../judges/node_modules")

const command = "npm ci --prefix test/judges"

/** Why tests that need the packages are skipped; `undefined` if they run. With `CI` set they run, and fail without them. */
export const judgesMissing =
  existsSync(judges) || isContinuousIntegration
    ? undefined
    : `the judges are not installed; install them with: ${command}`

/** The programs of `requirements.txt`. */
export const python = join(judges, ".python/bin")

/** Why tests that need the programs are skipped; `undefined` as above. */
export const pythonMissing =
  existsSync(python) || isContinuousIntegration
    ? undefined
    : "the judges in Python and Go are not installed: see .ci/run"
