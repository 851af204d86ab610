/** Compares the migrations of a checkout with the ones that its last tag has released. */
import { readdir, readFile } from "node:fs/promises"
import * as Path from "node:path"
import { runToEnd } from "../../support/Process.ts"

/** The texts of migrations by file name. */
type Texts = ReadonlyMap<string, string>

/** Returns how migrations contradict the released ones: released migrations never change, and later ones come after them. */
export const contradictions = (released: Texts, now: Texts): ReadonlyArray<string> => {
  const last = [...released.keys()].toSorted().at(-1) ?? ""
  return [
    ...[...released].flatMap(([name, text]) => {
      if (!now.has(name)) return [`${name} is released, and was removed or renamed`]
      return now.get(name) === text ? [] : [`${name} is released, and was changed`]
    }),
    ...[...now.keys()].flatMap((name) =>
      !released.has(name) && name < last ? [`${name} has to come after ${last}`] : []
    )
  ]
}

const git = async (checkout: string, ...args: ReadonlyArray<string>) => {
  const { code, stderr, stdout } = await runToEnd("git", ["-C", checkout, ...args])
  if (code !== 0) throw new Error(`git ${args.join(" ")}: ${stderr}`)
  return stdout
}

/** Reads the migrations of the last tag before the current commit. Returns undefined without a tag, or without a repository. */
export const releasedIn = async (checkout: string): Promise<Texts | undefined> => {
  const described = await runToEnd("git", ["-C", checkout, "describe", "--tags", "--abbrev=0"])
  if (described.code !== 0) return undefined
  const tag = described.stdout.trim()
  const names = (await git(checkout, "ls-tree", "--name-only", `${tag}:migrations`))
    .split("\n")
    .filter((name) => name !== "")
  return new Map(
    await Promise.all(
      names.map(async (name) => [name, await git(checkout, "show", `${tag}:migrations/${name}`)] as const)
    )
  )
}

export const migrationsIn = async (directory: string): Promise<Texts> => {
  const names = await readdir(directory)
  return new Map(
    await Promise.all(names.map(async (name) => [name, await readFile(Path.join(directory, name), "utf8")] as const))
  )
}
