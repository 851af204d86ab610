/** Programs besides Node and npm that some tests run, found on PATH. */
import { accessSync, constants } from "node:fs"
import { delimiter, join } from "node:path"
import { beforeEach } from "vitest"
import { isContinuousIntegration } from "./Judges.ts"

/** Names of each program's executable, and the Debian package that contains it. */
const programs = {
  redis: { names: ["redis-server"], debian: "redis-server" },
  chromium: { names: ["chromium", "chromium-browser", "google-chrome"], debian: "chromium" },
  curl: { names: ["curl"], debian: "curl" },
  haproxy: { names: ["haproxy"], debian: "haproxy" },
  pgbouncer: { names: ["pgbouncer"], debian: "pgbouncer" },
  git: { names: ["git"], debian: "git" },
  promtool: { names: ["promtool"], debian: "prometheus" },
  python3: { names: ["python3"], debian: "python3" },
  php: { names: ["php"], debian: "php-cli" },
  script: { names: ["script"], debian: "bsdutils" }
} as const

export type Program = keyof typeof programs

const isExecutable = (file: string) => {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

const find = (program: Program): string | undefined =>
  (process.env["PATH"] ?? "")
    .split(delimiter)
    .flatMap((directory) => programs[program].names.map((name) => join(directory, name)))
    .find(isExecutable)

const missing = (program: Program) => {
  const { debian, names } = programs[program]
  return `${names[0]} is not on PATH; install it with: apt-get install ${debian}`
}

/** Returns the path of a program. Throws an error that names the package to install if it is missing. */
export const pathOf = (program: Program): string => {
  const path = find(program)
  if (path === undefined) throw new Error(missing(program))
  return path
}

/** Whether tests that need a program run. With `CI` set they do, and fail if it is missing. */
export const isUsed = (program: Program): boolean => find(program) !== undefined || isContinuousIntegration

/** Skips the tests of the current suite if a program is missing. They run, and fail, if `CI` is set. */
export const requires = (program: Program): void => {
  beforeEach(({ skip }) => {
    if (!isUsed(program)) skip(missing(program))
  })
}
