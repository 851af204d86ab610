/** Links between the documents, and citations of the contract in comments, have existing targets. */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join, normalize } from "node:path"
import { anchorsOf, linksOf, proseOf } from "./support/Markdown.ts"

const root = join(import.meta.dirname, "..")
const read = (file: string) => readFileSync(join(root, file), "utf8")

const filesIn = (folder: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => !file.includes("node_modules"))
    .map((file) => join(folder, file))

const sources = ["src", "test", "migrations", "deploy"].flatMap(filesIn)
const documents = ["README.md", ".github/CONTRIBUTING.md", ...sources.filter((file) => file.endsWith(".md"))]

const relativeLinksOf = (document: string) => linksOf(read(document)).filter((target) => !/^[a-z]+:/.test(target))

describe("documents", () => {
  it("every relative link leads to a file, and every anchor to a heading", () => {
    const broken = documents.flatMap((document) =>
      relativeLinksOf(document).filter((target) => {
        const [path = "", anchor] = target.split("#")
        const file = path === "" ? document : normalize(join(dirname(document), path))
        return !existsSync(join(root, file)) || (anchor !== undefined && !anchorsOf(read(file)).has(anchor))
      })
    )
    assert.deepStrictEqual(broken, [])
    assert.isAbove(documents.flatMap(relativeLinksOf).length, 20)
  })

  it("every source file that a document names exists", () => {
    const missing = documents.flatMap((document) =>
      [...proseOf(read(document)).matchAll(/`([\w.-]+\/[\w./-]+\.(?:ts|md|ya?ml|json))`/g)]
        .map(([, path = ""]) => path)
        .filter((path) => ![".", "src", dirname(document)].some((base) => existsSync(join(root, base, path))))
        .map((path) => `${document}: ${path}`)
    )
    assert.deepStrictEqual(missing, [])
  })

  it("every citation of the contract names one of its sections", () => {
    const sections = new Set([...read("src/api/CONTRACT.md").matchAll(/^## §(\d+)\. /gm)].map(([, number]) => number))
    assert.strictEqual(sections.size, 18)
    const citing = [...documents, ...sources.filter((file) => /\.(ts|ya?ml)$/.test(file))]
    const unknown = citing.flatMap((file) =>
      [...read(file).matchAll(/§(\d+)/g)]
        .filter(([, number]) => !sections.has(number))
        .map(([citation]) => `${file}: ${citation}`)
    )
    assert.deepStrictEqual(unknown, [])
  })

  it("all documents together and the pages that most people read have a bounded size", () => {
    const bytes = documents.map((document) => [Buffer.byteLength(read(document)), document] as const)
    const total = bytes.reduce((sum, [size]) => sum + size, 0)
    for (const [size, document] of bytes.toSorted(([left], [right]) => right - left)) console.log(size, document)
    console.log(total, "all documents")
    assert.isAtMost(total, 140_000)
    assert.isAtMost(bytes.find(([, document]) => document === "src/api/CONTRACT.md")?.[0] ?? 0, 50_000)
  })

  it("the README has at most 200 lines", () => {
    assert.isAtMost(read("README.md").split("\n").length - 1, 200)
  })
})
