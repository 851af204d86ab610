/**
 * Compiles the package of the client (`npm pack --workspace developer-api`), with the texts of the OpenAPI document as JSDoc. With the
 * name of a file as argument, packs it into this file, as `GET /client.tgz` serves it, and leaves no other file behind.
 *
 * The texts are annotations of schemas, which exist only in a running program, while editors show the comments in declaration
 * files. TypeScript writes the types of records in full into the declarations of `Api`, events and problems. There, each member
 * of a type gets its description from the operation, event or problem of the document to which the type belongs.
 */
import { Context } from "effect"
import { OpenApi } from "effect/http-api"
import { spawnSync } from "node:child_process"
import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Api, endpoints } from "./api/Api.ts"
import { completeDocument } from "./api/document/Document.ts"

const client = join(import.meta.dirname, "client")
const root = join(import.meta.dirname, "..")
const [tarball] = process.argv.slice(2)
const folder = tarball === undefined ? client : mkdtempSync(join(tmpdir(), "developer-api-client-"))
const dist = join(folder, "dist")

/** The descriptions of an object's members, by name. */
type Texts = ReadonlyMap<string, string>

const document: unknown = OpenApi.fromApi(completeDocument(Api))

type Members = ReadonlyArray<readonly [name: string, value: unknown]>

const membersOf = (value: unknown): Members =>
  typeof value === "object" && value !== null ? Object.entries(value) : []
const memberOf = (value: unknown, ...path: ReadonlyArray<string>): unknown =>
  path.reduce((at, name) => new Map(membersOf(at)).get(name), value)

const textsOf = (members: Members): Texts =>
  new Map(members.map(([name, member]) => [name, String(memberOf(member, "description") ?? "")]))

const namedBy = (member: string, items: unknown): Members =>
  membersOf(items).map(([, item]) => [String(memberOf(item, member)), item])

/** Returns the texts of all objects in a part of the document, including objects that the part refers to. */
const objectsIn = (part: unknown, seen = new Set<unknown>()): ReadonlyArray<Texts> => {
  if (seen.has(part)) return []
  seen.add(part)
  return membersOf(part).flatMap(([name, value]) => [
    ...(name === "properties" || name === "headers" ? [textsOf(membersOf(value))] : []),
    ...(name === "parameters" ? [textsOf(namedBy("name", value))] : []),
    ...objectsIn(name === "$ref" ? memberOf(document, ...String(value).slice(2).split("/")) : value, seen)
  ])
}

const operations = ["paths", "webhooks"]
  .flatMap((member) => membersOf(memberOf(document, member)))
  .flatMap(([, path]) => namedBy("operationId", path))

/** The texts of the objects of each operation, event and problem, by its name in the declarations. */
const objects = new Map(
  [...operations, ...membersOf(memberOf(document, "components", "schemas"))].map(
    ([name, part]) => [name, objectsIn(part)] as const
  )
)

/** The texts for a problem that no operation declares: it has at least the members of `internal`. */
const undeclaredProblem = objects.get("internal") ?? []

const comment = (indent: string, text: string) => `${indent}/** ${text.replaceAll("*/", "*\\/")} */`

/** A type literal in a declaration: the line of each member by name, and the texts of each object that it may describe. */
interface Literal {
  readonly lines: Map<string, number>
  readonly candidates: ReadonlyArray<Texts>
}

/** Returns the texts of the smallest object that has all members of a type literal. */
const textsFor = ({ candidates, lines }: Literal): Texts | undefined =>
  candidates
    .filter((texts) => lines.keys().every((name) => texts.has(name)))
    .toSorted((one, other) => one.size - other.size)[0]

/** Returns a declaration, as the compiler writes it, with the descriptions of the members of its type literals. */
const documentMembers = (declaration: string): string => {
  const lines = declaration.split("\n")
  const texts = new Map<number, string>()
  const open: Array<Literal> = []
  let candidates: ReadonlyArray<Texts> = []
  for (const [index, line] of lines.entries()) {
    if (/^ *\}/.test(line)) {
      const literal = open.pop()
      const found = literal && textsFor(literal)
      for (const [name, at] of literal?.lines ?? []) texts.set(at, found?.get(name) ?? "")
    }
    const name = /^ +(?:readonly )?"?([\w-]+)"?\??: /.exec(line)?.[1]
    if (name !== undefined) open.at(-1)?.lines.set(name, index)
    for (const [, name = ""] of line.matchAll(/(?:HttpApiEndpoint<|ProblemClass<\w+, |^ +(?="\w+\.))"([\w.]+)"/g))
      candidates = objects.get(name) ?? undeclaredProblem
    if (line.endsWith("{")) open.push({ lines: new Map(), candidates })
  }
  return lines
    .flatMap((line, index) => {
      const text = texts.get(index) ?? ""
      return text === "" ? [line] : [comment(/^ */.exec(line)?.[0] ?? "", text), line]
    })
    .join("\n")
}

/** Declares the members of RFC 9457 in each class of a problem, because the inherited declarations have no descriptions. */
const declareProblemMembers = (declaration: string): string =>
  declaration.replaceAll(/^export declare class \w+ extends (\w+_base) \{$/gm, (line, base) => {
    const inherited = (name: string) => `InstanceType<typeof ${base}>["${name}"]`
    const required = ["type", "status", "title"].map((name) => `    readonly ${name}: ${inherited(name)};`)
    // An indexed type would add `undefined` to these members.
    const optional = ["detail", "instance"].map((name) => `    readonly ${name}?: string;`)
    return [line, ...required, ...optional].join("\n")
  })

/** Adds an interface with the texts of all operations to a declaration. Both client types then include this interface. */
const documentOperations = (declaration: string): string => {
  const groups = new Map<string, Array<string>>()
  for (const { endpoint, group } of endpoints()) {
    const summary = Context.getOrUndefined(endpoint.annotations, OpenApi.Summary)
    const description = Context.getOrUndefined(endpoint.annotations, OpenApi.Description)
    const lines = groups.get(group.identifier) ?? []
    lines.push(comment("        ", `${summary}. ${description}`), `        readonly ${endpoint.identifier}: unknown;`)
    groups.set(group.identifier, lines)
  }
  const members = [...groups].map(([name, lines]) => `    readonly ${name}: {\n${lines.join("\n")}\n    };\n`)
  const types = declaration.replaceAll(/^export type (?:Promise)?Operations = /gm, "$&OperationTexts & ")
  return `${types}\ninterface OperationTexts {\n${members.join("")}}\n`
}

const edit = (file: string, change: (text: string) => string) => {
  const path = join(dist, file)
  writeFileSync(path, change(readFileSync(path, "utf8")))
}

rmSync(dist, { recursive: true, force: true })
const run = (command: string, ...args: ReadonlyArray<string>) => {
  if (spawnSync(command, args, { stdio: "inherit" }).status !== 0) process.exit(1)
}
run(join(root, "node_modules/.bin/tsc"), "--project", client, "--outDir", dist)
for (const file of ["Problems", "RequestProblems"]) edit(`api/${file}.d.ts`, declareProblemMembers)
for (const file of ["Api", "Problems", "RequestProblems", "integrations/Events"])
  edit(`api/${file}.d.ts`, documentMembers)
edit("client/Operations.d.ts", documentOperations)
cpSync(join(root, "LICENSE"), join(folder, "LICENSE"))
if (tarball !== undefined) {
  const files = ["package.json", "README.md"]
  for (const file of files) cpSync(join(client, file), join(folder, file))
  const packed = join(folder, "client.tgz")
  const entries = ["dist", "LICENSE", ...files].map((entry) => `./${entry}`)
  run("tar", "-czf", packed, "-C", folder, "--transform", "s,^[.],package,", ...entries)
  cpSync(packed, `${tarball}.part`)
  renameSync(`${tarball}.part`, tarball)
  rmSync(folder, { recursive: true })
}
