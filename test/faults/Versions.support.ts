/** The version before this one, from the history of the repository. */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import { readdir, readFile, symlink, writeFile } from "node:fs/promises"
import * as Path from "node:path"
import { checkout, runToEnd, temporaryDirectory } from "../support/Process.ts"
import type { project } from "./Projects.support.ts"

const git = async (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) => {
  const { code, stderr, stdout } = await runToEnd("git", args, env)
  if (code !== 0) throw new Error(`git ${args.join(" ")}: ${stderr}`)
  return stdout
}

const linesOf = (text: string) => text.split("\n").filter((line) => line !== "")

/** A migration without what may change in it after its release: comments and white space. */
const withoutComments = (text: string) => text.replaceAll(/\/\*[^]*?\*\/|\/\/.*|--.*|\s+/g, "")

/** The number of migrations that a commit lacks, if those that it has are unchanged; otherwise undefined. */
const missingIn = async (commit: string, now: ReadonlyMap<string, string>, read: (blob: string) => Promise<string>) => {
  // `mode blob id<tab>name`
  const files = linesOf(await git(["ls-tree", `${commit}:migrations`])).map((line) => line.split(/\s+/))
  for (const [, , blob = "", name = ""] of files) {
    if (now.get(name) !== (await read(blob))) return undefined
  }
  return now.size - files.length
}

/** Maximum number of commits that are searched. */
const candidates = 40

export interface VersionBefore {
  readonly commit: string
  /** The migrations that this version has and that one has not. */
  readonly newer: number
}

/**
 * The last commit before a migration that this version has: its migrations are the first of those of now. Where no
 * commit that is known lacks only some, it is one of the same migrations. Undefined without a history.
 */
export const findVersionBefore = async (): Promise<VersionBefore | undefined> => {
  const directory = Path.join(checkout, "migrations")
  const now = new Map<string, string>()
  for (const name of await readdir(directory))
    now.set(name, withoutComments(await readFile(Path.join(directory, name), "utf8")))
  const texts = new Map<string, Promise<string>>()
  const read = (blob: string) => {
    const text = texts.get(blob) ?? git(["cat-file", "blob", blob]).then(withoutComments)
    texts.set(blob, text)
    return text
  }
  try {
    const parents = await git(["log", `-${candidates}`, "--full-history", "--format=%P", "--", "migrations"])
    const found: Array<VersionBefore> = []
    for (const commit of new Set(["HEAD", ...parents.split(/\s+/).filter((parent) => parent !== "")])) {
      const newer = await missingIn(commit, now, read)
      if (newer !== undefined) found.push({ commit, newer })
    }
    const older = found.filter(({ newer }) => newer > 0).sort((a, b) => a.newer - b.newer)
    return older[0] ?? found.findLast(({ commit }) => commit !== "HEAD")
  } catch {
    // No repository, or one without its history.
    return undefined
  }
}

/** Writes the source of a commit into a directory of the test's own, which uses the packages of this checkout. */
export const sourceOf = async (commit: string): Promise<string> => {
  const directory = await temporaryDirectory()
  const source = Path.join(directory, "source")
  // An index of its own: that of the checkout stays as it is.
  const env = { GIT_INDEX_FILE: Path.join(directory, "index") }
  await git(["read-tree", commit], env)
  await git(["checkout-index", "--all", `--prefix=${source}/`], env)
  await symlink(Path.join(checkout, "node_modules"), Path.join(source, "node_modules"))
  return source
}

const decodeToken = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ token: Schema.String })))

/** Applies a project file and issues a token by the commands of a source. */
export const applyBy =
  (source: string, env: Readonly<Record<string, string>>): typeof project =>
  async (_, file = {}) => {
    const id = file.project?.id ?? assert.fail("The project has no id")
    const command = async (...args: ReadonlyArray<string>) => {
      const { code, stderr, stdout } = await runToEnd(process.execPath, [Path.join(source, "src/cli.ts"), ...args], env)
      assert.strictEqual(code, 0, stderr)
      return stdout
    }
    const path = Path.join(await temporaryDirectory(), "project.json")
    await writeFile(path, JSON.stringify(file))
    await command("project", "apply", path)
    return decodeToken(await command("token", "issue", "--project", id, "--name", "test", "--scope", "all", "--json"))
      .token
  }
