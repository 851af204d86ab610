/** The table of operations of the contract: the method, the path, the scope and the success of each, and the form of its key. */
import { Schema } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Module, Scope } from "../../src/api/Access.ts"
import type { Sample } from "./Sample.ts"

export const contract = readFileSync(join(import.meta.dirname, "../../src/api/CONTRACT.md"), "utf8")

/** Returns the cells of the table rows of a section, without separator rows. */
export const rowsOf = (section: string) =>
  (contract.split(`\n## ${section}`)[1] ?? "")
    .split("\n## ")[0]
    ?.split("\n")
    .filter((line) => /^\| [^-]/.test(line))
    .map((line) =>
      line
        .slice(1, -1)
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim())
    ) ?? []

const decode = Schema.decodeUnknownSync(
  Schema.Struct({
    method: Schema.Literals(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    path: Schema.String,
    scope: Schema.NullOr(Scope),
    module: Schema.NullOr(Module),
    status: Schema.Literals([200, 201]),
    key: Schema.optionalKey(Schema.Literals(["record", "any"]))
  })
)

/** Every operation of the contract, by its name. Without a key an operation changes nothing, and has the policy `read`. */
export const operations = new Map(
  rowsOf("Operations")
    .slice(1)
    .map(([name = "", route = "", scope = "", success = "", key = ""]) => {
      const [, method, path = ""] = /^(\w+) `(.*)`/.exec(route) ?? []
      const module = path.startsWith("/crm/tickets") ? "tickets" : scope === "none" ? null : path.split("/")[1]
      const of = {
        method,
        path: `/v1/developer${path}`,
        scope: scope === "none" ? null : scope.replaceAll("`", ""),
        module
      }
      // The records of the samples exist, so their upserts answer the last of two statuses.
      const operation = decode({ ...of, status: Number(success.split(" or ").at(-1)), ...(key === "" ? {} : { key }) })
      return [name, { ...operation, policy: key === "" ? ("read" as const) : ("write" as const) }] as const
    })
)

/** A sample without what the contract's table says of its operation. */
type Request = Omit<Sample, "method" | "path" | "status" | "scope" | "module" | "policy" | "key"> &
  Partial<Pick<Sample, "policy">>

/** Adds to each request what the contract's table says of its operation. */
export const asContracted = (requests: Readonly<Record<string, Request>>): Readonly<Record<string, Sample>> =>
  Object.fromEntries(
    Object.entries(requests).map(([name, request]) => {
      const operation = operations.get(name)
      if (operation === undefined) throw new Error(`The contract has no operation ${name}`)
      return [name, { ...operation, ...request }]
    })
  )
