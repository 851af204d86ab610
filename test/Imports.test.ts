/** The folders of `src`, and the imports that are allowed between them. */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, normalize, relative } from "node:path"

const root = join(import.meta.dirname, "..")

interface Import {
  readonly from: string
  readonly to: string
}

const filesOf = (folder: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !/(^|\/)(node_modules|dist)\//.test(file))
    .map((file) => join(folder, file))

/** Returns the imports of files, those of types included. */
const importsOf = (files: ReadonlyArray<string>): ReadonlyArray<Import> =>
  files.flatMap((from) =>
    [...readFileSync(join(root, from), "utf8").matchAll(/(?:from|import)\s*\(?\s*"([^"\s]+)"/g)].flatMap(
      ([, to = ""]) => [{ from, to: to.startsWith(".") ? normalize(join(dirname(from), to)) : to }]
    )
  )

const files = filesOf("src")
const imports = importsOf(files)

/** The folders without a domain, each with those that it may import besides itself. */
const foundation: Readonly<Record<string, ReadonlyArray<string>>> = {
  api: [],
  platform: ["api"],
  secrets: ["platform"],
  telemetry: ["platform"],
  sql: ["telemetry", "platform", "api"],
  work: ["sql", "telemetry", "platform"],
  outbound: ["telemetry", "platform"],
  outbox: ["work", "sql", "telemetry", "api"],
  commands: ["work", "sql", "telemetry", "platform", "api"],
  operating: ["commands", "sql", "platform", "api"],
  http: ["commands", "operating", "outbound", "work", "sql", "secrets", "telemetry", "platform", "api"]
}

const domains = ["campaigns", "messaging", "webhooks", "imports", "crm"]

/** The folders that each folder may import besides itself. Every folder is listed. */
const allowed: Readonly<Record<string, ReadonlyArray<string>>> = {
  ...foundation,
  crm: Object.keys(foundation),
  messaging: Object.keys(foundation),
  campaigns: ["messaging", "crm", ...Object.keys(foundation)],
  webhooks: Object.keys(foundation),
  imports: ["crm", ...Object.keys(foundation)],
  project: [...domains, ...Object.keys(foundation)],
  operators: [...domains, ...Object.keys(foundation)],
  console: ["operators", "project", ...domains, ...Object.keys(foundation)],
  cells: ["project", ...Object.keys(foundation)],
  documents: ["console", ...Object.keys(foundation)],
  service: ["cells", "documents", "console", "project", ...domains, ...Object.keys(foundation)],
  // Of the client, the verification of webhooks.
  cli: ["service", "cells", "client", "operators", "project", ...domains, ...Object.keys(foundation)],
  client: ["api"],
  "client.ts": ["client", "api"],
  "pack.ts": ["api"],
  "cli.ts": ["cli"],
  "main.ts": ["cli"]
}

/** Folders whose modules outside of the services' own folders are their public interface. */
const services = new Set([...domains, "project", "operators", "console", "service", "cells", "documents", "cli"])

/** Allowed imports of modules that are not public. */
const exceptions: ReadonlyArray<{ readonly from: string; readonly to: RegExp }> = [
  // The server is composed of the handlers of all services, and nothing else uses them.
  { from: "src/service/Ports.ts", to: /\/Http\.ts$/ }
]

/** Returns the imports that close a cycle, found by a walk from every file. */
const cyclesIn = (imports: ReadonlyArray<Import>): ReadonlyArray<Import> => {
  const importsFrom = Map.groupBy(imports, ({ from }) => from)
  const [open, done] = [new Set<string>(), new Set<string>()]
  const walk = (file: string): ReadonlyArray<Import> => {
    open.add(file)
    const found = (importsFrom.get(file) ?? []).flatMap((line) =>
      open.has(line.to) ? [line] : done.has(line.to) ? [] : walk(line.to)
    )
    open.delete(file)
    done.add(file)
    return found
  }
  return [...importsFrom.keys()].flatMap((file) => (done.has(file) ? [] : walk(file)))
}

/** Returns the room of a module: a folder in lower case below a folder of `src`; undefined for a module beside the rooms. */
const roomOf = (file: string) => /^src\/[^/]+\/([a-z]\w*)\//.exec(file)?.[1]

/** Returns the innermost capitalised folder of a module, which is the inside of the file of its name; undefined if there is none. */
const insideOf = (file: string) => /^.*\/[A-Z]\w*(?=\/)/.exec(file)?.[0]

/** Whether a module is beside its folder's services or in a room. */
const isPublic = (file: string) => insideOf(file) === undefined

const folderOf = (file: string) => relative("src", file).split("/")[0] ?? ""
const isLocal = ({ to }: Import) => to.startsWith("src/")
const show = ({ from, to }: Import) => `${from} → ${to}`

describe("imports", () => {
  it("follow the allowed directions between folders", () => {
    const wrong = imports.filter(isLocal).filter(({ from, to }) => {
      const [here, there] = [folderOf(from), folderOf(to)]
      return here !== there && !(allowed[here] ?? []).includes(there)
    })
    assert.deepStrictEqual(wrong.map(show), [])
    assert.deepStrictEqual(
      files.filter((file) => allowed[folderOf(file)] === undefined),
      []
    )
  })

  it("between domains name public modules: those in no service's own folder", () => {
    const wrong = imports
      .filter(({ from, to }) => {
        const domain = folderOf(to)
        return domain !== folderOf(from) && services.has(domain) && !isPublic(to)
      })
      .filter((line) => !exceptions.some(({ from, to }) => from === line.from && to.test(line.to)))
    assert.deepStrictEqual(wrong.map(show), [])
  })

  it("of modules inside of a capitalised folder come from the file of its name and from the folder itself", () => {
    const wrong = imports.filter(({ from, to }) => {
      const inside = insideOf(to)
      return isLocal({ from, to }) && inside !== undefined && from !== `${inside}.ts` && !from.startsWith(`${inside}/`)
    })
    assert.deepStrictEqual(wrong.map(show), [])
  })

  it("between the rooms of a folder go one way", () => {
    const between = imports.flatMap(({ from, to }) => {
      const [here, there] = [roomOf(from), roomOf(to)]
      if (folderOf(from) !== folderOf(to) || here === undefined || there === undefined || here === there) return []
      return [{ from: `${folderOf(from)}/${here}`, to: `${folderOf(to)}/${there}` }]
    })
    assert.deepStrictEqual(cyclesIn(between).map(show), [])
  })

  it("find at most 14 modules in a folder", () => {
    const sizes = Map.groupBy(files, (file) => dirname(file))
    const large = [...sizes].filter(([, { length }]) => length > 14).map(([folder]) => folder)
    assert.deepStrictEqual(large, [])
  })

  it("form no cycle, even of types alone", () => {
    assert.deepStrictEqual(cyclesIn(imports).map(show), [])
    assert.deepStrictEqual(cyclesIn(importsOf(filesOf("test"))).map(show), [])
  })

  it("of the contract and of the client come from effect alone", () => {
    const wrong = imports.filter(
      (line) =>
        ["api", "client", "client.ts"].includes(folderOf(line.from)) && !isLocal(line) && !/^effect(\/|$)/.test(line.to)
    )
    assert.deepStrictEqual(wrong.map(show), [])
  })

  it("of packages in src come from production dependencies alone", () => {
    const { dependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    const wrong = imports.filter((line) => {
      const name = /^(@[^/]+\/)?[^/]+/.exec(line.to)?.[0] ?? ""
      return !isLocal(line) && !/^(node:|migrations\/|package\.json$)/.test(line.to) && !(name in dependencies)
    })
    assert.deepStrictEqual(wrong.map(show), [])
  })

  it("of Http files contain no SQL module", () => {
    const wrong = imports.filter(({ from, to }) => from.endsWith("/Http.ts") && to.includes("sql"))
    assert.deepStrictEqual(wrong.map(show), [])
  })

  it("find no index files and no folders by kind", () => {
    const wrong = files.filter((file) => /(^|\/)(index\.ts|utils|common|services|layers|errors)(\/|\.ts|$)/.test(file))
    assert.deepStrictEqual(wrong, [])
  })

  it("read process.env in Settings alone", () => {
    const wrong = files.filter((file) => readFileSync(join(root, file), "utf8").includes("process.env"))
    // The programs that it shows read it.
    assert.deepStrictEqual(wrong, ["src/documents/Samples.ts"])
  })
})
