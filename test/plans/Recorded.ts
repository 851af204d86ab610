/** The statements that this process has built, by their text. */
import type { PgClient } from "@effect/sql-pg"
import { Predicate } from "effect"
import type { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { relative, resolve } from "node:path"
import { fileURLToPath } from "node:url"

const root = resolve(import.meta.dirname, "../..")

/** A line of a source file on which an SQL template begins. */
interface Place {
  readonly file: string
  readonly line: number
}

/** A template, and the templates inside it. */
interface Template {
  readonly place: Place
  readonly parts: ReadonlyArray<Template>
}

export interface Built {
  readonly template: Template
  readonly pool: PgClient.PgPoolConfig
}

/** Built statements by text, each with the first place that built it. */
export const built = new Map<string, Built>()

/** All places of the source that have built an SQL template. */
export const reached = new Set<string>()

export const nameOf = ({ file, line }: Place): string => `${file}:${line}`

const templateOf = new WeakMap<object, Template>()

interface Compiles {
  readonly compile: () => readonly [text: string, parameters: ReadonlyArray<unknown>]
}
const isStatement = (value: unknown): value is Compiles & object =>
  Predicate.hasProperty(value, "compile") && typeof value.compile === "function"

/** Records a template with its arguments. Templates that tests build are ignored. */
const record = (template: unknown, args: ReadonlyArray<unknown>, pool: PgClient.PgPoolConfig): void => {
  const [strings, ...parameters] = args
  if (!isStatement(template) || !Predicate.hasProperty(strings, "raw")) return
  const place = callerOf(new Error("").stack ?? "")
  if (place === undefined) return
  reached.add(nameOf(place))
  const made = { place, parts: parameters.flatMap(partsOf) }
  templateOf.set(template, made)
  const [text] = template.compile()
  if (!built.has(text)) built.set(text, { template: made, pool })
}

/** Returns a client that records what it builds. */
export const recording = <A extends SqlClient.SqlClient>(client: A, pool: PgClient.PgPoolConfig): A =>
  new Proxy(client, {
    apply: (target, _, args) => {
      const built: unknown = Reflect.apply(target, undefined, args)
      record(built, args, pool)
      return built
    }
  })

/** Returns the templates in a parameter: the parameter itself, or the parts of a fragment that joins several. */
const partsOf = (parameter: unknown): ReadonlyArray<Template> => {
  if (!Predicate.isObject(parameter)) return []
  const own = templateOf.get(parameter)
  if (own !== undefined) return [own]
  return "segments" in parameter && Array.isArray(parameter.segments) ? parameter.segments.flatMap(partsOf) : []
}

/** Returns the places of a template and of all templates inside it, level by level. */
export const placesOf = (template: Template): ReadonlyArray<Place> => {
  const levels = [[template]]
  for (let level = [template]; level.length > 0;) {
    level = level.flatMap(({ parts }) => parts)
    levels.push(level)
  }
  return levels.flat().map(({ place }) => place)
}

const callerOf = (stack: string): Place | undefined => {
  const frame = stack.split("\n").find((line) => line.includes(`${root}/src/`))
  const [, url = "", line = ""] = /(file:\/\/\S+):(\d+):\d+\)?$/.exec(frame ?? "") ?? []
  return url === "" ? undefined : { file: relative(root, fileURLToPath(url)), line: Number(line) }
}

const linesOf = (file: string) => readFileSync(resolve(root, file), "utf8").split("\n")

const declared = /^\s*(?:(?:export )?(?:const|function|class) (\w+)\b(?! = yield\*)|(\w+): Effect\.fn)/

/** Returns the declaration around a place: the nearest one above it that is indented less. */
export const declarationAt = ({ file, line }: Place): string => {
  const lines = linesOf(file).slice(0, line).toReversed()
  let least = Number.POSITIVE_INFINITY
  for (const text of lines.filter((text) => text.trim() !== "")) {
    const indentation = text.length - text.trimStart().length
    const [, name, member] = declared.exec(text) ?? []
    if (indentation < least && (name ?? member) !== undefined) return name ?? member ?? ""
    // Text after a closing bracket belongs to the declaration that opens it, at the same indentation.
    least = Math.min(least, /^\s*[)}\]]/.test(text) ? indentation + 1 : indentation)
  }
  return ""
}

/** Matches the tag of an SQL template with its type argument, on one line or several, but no other tag, such as that of HTML. */
const begun = /\bsql(?:<[^`]*?>)?`/g

/** Returns the places of a file at which a template begins. */
export const templatesIn = (file: string): ReadonlyArray<Place> => {
  const text = readFileSync(resolve(root, file), "utf8")
  return [...text.matchAll(begun)].flatMap(({ 0: tag, index }) => {
    const lines = text.slice(0, index + tag.length).split("\n")
    return /^\s*(?:\/?\*|\/\/)/.test(lines.at(-1) ?? "") ? [] : [{ file, line: lines.length }]
  })
}
