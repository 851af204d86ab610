/**
 * `npm pack`: compiles the client into `dist`, with the descriptions of the API as JSDoc, and packs the client's README.
 *
 * Types derive from schemas, and TypeScript shows the JSDoc of a schema's field for the fields of its records. The
 * descriptions are annotations, which only the running program knows: so a copy of the source is compiled, in which they
 * stand as comments. They reach the fields of events; the declaration of `Api` repeats the types of answers without them.
 * Operations get theirs from an interface with which their declared types are intersected.
 */
import { HttpApi, OpenApi } from "effect/http-api"
import { Context } from "effect"
import { spawnSync } from "node:child_process"
import { cpSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Api } from "./api/Api.ts"

const root = join(import.meta.dirname, "..")
const dist = join(root, "dist")
const work = join(dist, ".pack")
const readme = join(root, "README.md")
const kept = join(work, "README.md")

const edit = (file: string, change: (text: string) => string) => writeFileSync(file, change(readFileSync(file, "utf8")))

const literal = String.raw`"(?:[^"\\]|\\.)*"`
const described = String.raw`\.annotate\(\{[^{}]*?description:\s*(${literal}(?:\s*\+\s*${literal})*)`
const definition = new RegExp(String.raw`^(?:export )?const (\w+) = (?:(?!\n\n|Struct\()[^])*?${described}`, "gm")
const member = new RegExp(String.raw`^( +)[\w"-]+: (?:(?!^\1\S|Struct\()[^])*?${described}`, "gm")
const reference = /^( +)\w+: (?:Schema\.(?:NullOr|optionalKey)\()*(\w+)\)*,?$/gm

const valueOf = (literals: string) =>
  literals
    .matchAll(new RegExp(literal, "g"))
    .map(([text]): unknown => JSON.parse(text))
    .toArray()
    .join("")

const comment = (indent: string, text: string) => `${indent}/** ${text.replaceAll("*/", "*\\/")} */\n`

/** Writes the descriptions of fields as JSDoc before them: their own, or that of the schema that they refer to. */
const documentFields = (directory: string) => {
  const files = readdirSync(directory, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .map((file) => join(directory, file))
  const known = new Map(
    files.flatMap((file) =>
      readFileSync(file, "utf8")
        .matchAll(definition)
        .map(([, name = "", literals = ""]) => [name, valueOf(literals)] as const)
        .toArray()
    )
  )
  for (const file of files) {
    edit(file, (text) =>
      text
        .replace(reference, (line, indent: string, name: string) =>
          known.has(name) ? comment(indent, known.get(name) ?? "") + line : line
        )
        .replace(member, (line, indent: string, literals: string) => comment(indent, valueOf(literals)) + line)
    )
  }
}

/** Writes an interface with the summary and the description of each operation, and adds it to the types of the clients. */
const documentOperations = (file: string) => {
  const groups: Record<string, string> = {}
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group }) => {
      const { annotations } = endpoint
      const summary = Context.getOrUndefined(annotations, OpenApi.Summary) ?? endpoint.identifier
      const text = `${summary}. ${Context.getOrUndefined(annotations, OpenApi.Description) ?? ""}`.trim()
      groups[group.identifier] =
        `${groups[group.identifier] ?? ""}${comment("    ", text)}    ${endpoint.identifier}: unknown\n`
    }
  })
  const members = Object.entries(groups).map(([name, operations]) => `  ${name}: {\n${operations}  }\n`)
  edit(file, (text) => {
    const types = text.replaceAll(/^export type ((?:Promise)?Operations) = \{$/gm, "export type $1 = OperationDocs & {")
    if (types.split("OperationDocs").length !== 3) throw new Error(`${file}: two types of operations are expected`)
    return `${types}\ninterface OperationDocs {\n${members.join("")}}\n`
  })
}

const compile = () => {
  rmSync(dist, { recursive: true, force: true })
  for (const part of ["tsconfig.json", "src/tsconfig.client.json", "src/client.ts", "src/client", "src/api"]) {
    cpSync(join(root, part), join(work, part), { recursive: true })
  }
  documentFields(join(work, "src/api"))
  const { status } = spawnSync("tsc", ["--project", join(work, "src/tsconfig.client.json")], { stdio: "inherit" })
  if (status !== 0) process.exit(1)
  documentOperations(join(work, "dist/client/Operations.d.ts"))
  cpSync(join(work, "dist"), dist, { recursive: true })
  rmSync(work, { recursive: true })
}

/** npm packs the README of the root. While it packs, that is the client's, whose links to other documents are texts. */
const exchangeReadme = () => {
  const text = readFileSync(join(root, "src/client/README.md"), "utf8")
  cpSync(readme, kept)
  writeFileSync(readme, text.replaceAll(/\[([^\]]+)\]\((?!https?:|#)[^)]*\)/g, "$1"))
}

const restoreReadme = () => {
  if (existsSync(kept)) renameSync(kept, readme)
  rmSync(work, { recursive: true, force: true })
}

// A pack that was killed has left the client's README behind.
restoreReadme()
if (!process.argv.includes("--restore")) {
  compile()
  if (process.argv.includes("pack") || process.argv.includes("publish")) exchangeReadme()
}
