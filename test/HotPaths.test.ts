/**
 * No code that runs for each request creates a generator function: it would keep what it captures alive until a major
 * garbage collection. `Effect.fnUntraced` creates its generator function once.
 */
import { assert, describe, it } from "@effect/vitest"
import { Predicate } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parseSync } from "vite"

const source = join(import.meta.dirname, "../src")

/** Files whose functions run for each request; layers in them are built once. */
const perRequest = readdirSync(source, { recursive: true, encoding: "utf8" }).filter(
  (file) =>
    /^(service\/Lifecycle|http\/(path|limits)\/\w+|http\/auth\/Credentials|commands\/\w+)\.ts$/.test(file) ||
    /^crm\/.*\.ts$/.test(file) ||
    /^(?!messaging\/providers).*Http\.ts$/.test(file)
)

const isGen = (node: object): boolean =>
  Predicate.hasProperty(node, "callee") &&
  Predicate.hasProperty(node.callee, "property") &&
  Predicate.hasProperty(node.callee.property, "name") &&
  node.callee.property.name === "gen"

const isFunction = (node: object): boolean =>
  Predicate.hasProperty(node, "type") && /^(Arrow)?Function(Expression|Declaration)$/.test(String(node.type))

/** Returns the positions of calls of `Effect.gen` within a function that takes arguments. */
const found = (node: unknown, inside: boolean): ReadonlyArray<number> => {
  if (Array.isArray(node)) return node.flatMap((item) => found(item, inside))
  if (!Predicate.isObject(node)) return []
  const own = inside && isGen(node) && Predicate.hasProperty(node, "start") ? [Number(node.start)] : []
  const takesArguments =
    isFunction(node) && Predicate.hasProperty(node, "params") && Array.isArray(node.params) && node.params.length > 0
  return [...own, ...Object.values(node).flatMap((child) => found(child, inside || takesArguments))]
}

describe("code that runs for each request", () => {
  // Built once: layers that take arguments.
  const once = new Set(["service/Ports.ts", "service/Lifecycle.ts", "http/limits/RedisStore.ts"])
  for (const file of perRequest.filter((file) => !once.has(file))) {
    it(`creates no generator function per call: ${file}`, () => {
      const text = readFileSync(join(source, file), "utf8")
      const lines = found(parseSync(file, text).program, false).map((start) => text.slice(0, start).split("\n").length)
      assert.deepStrictEqual(lines, [])
    })
  }
})
