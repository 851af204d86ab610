/**
 * Faults of values, as messages for people, in one style for requests, settings and files; and where they are in a request:
 * `path/clientId`, `query/limit`, `header/idempotency-key`, `body/tags/3`.
 */
import { JsonPointer, Predicate, Result, Schema, SchemaAST, SchemaIssue } from "effect"
import type { Faults } from "../Problems.ts"

/** A fault and its location, whose segments are escaped as in RFC 6901. */
export type LocatedFault = readonly [location: string, message: string]

/** Maximum number of faults in an answer (contract §1). What gathers faults may stop after one more. */
export const maxFaults = 100

/** Maximum lengths of a location in an answer, and of a name in it, in code points (contract §1). */
const [maxLocation, maxName] = [256, 64]

/** Maximum size of the reported faults as JSON, in bytes. This keeps the whole body of a problem below 64 KiB. */
const maxFaultBytes = 32 * 1024

const encoder = new TextEncoder()
const jsonBytes = (text: string) => encoder.encode(JSON.stringify(text)).length

const cut = (location: string, length: number) =>
  location.length <= length
    ? location
    : Array.from(location.slice(0, 2 * length))
        .slice(0, length)
        .join("")

/** Makes the location of a part of a request, such as `body`, or of a value in it. */
export const locationOf = (part: string, path: ReadonlyArray<PropertyKey>): string => {
  let location = part
  for (const name of path) {
    if (location.length > 2 * maxLocation) break
    location += `/${JsonPointer.escapeToken(cut(String(name), maxName))}`
  }
  return location
}

interface GroupedFaults {
  readonly errors: Faults
  readonly omitted: number
}

/** Groups faults by location, up to `maxFaults` and `maxFaultBytes`. Counts the faults that are left out. */
export const groupFaults = (faults: Iterable<LocatedFault>): GroupedFaults => {
  const errors = new Map<string, Array<string>>()
  let bytes = 0
  let count = 0
  let omitted = 0
  for (const [whole, message] of faults) {
    const location = cut(whole, maxLocation)
    const messages = errors.get(location)
    if (messages?.includes(message) === true) continue
    const size = bytes < maxFaultBytes ? jsonBytes(message) + jsonBytes(location) : 0
    if (count >= maxFaults || bytes + size >= maxFaultBytes) {
      omitted++
    } else {
      count++
      bytes += size
      if (messages === undefined) errors.set(location, [message])
      else messages.push(message)
    }
  }
  return { errors: Object.fromEntries(errors), omitted }
}

export const faultDetail = ({ errors, omitted }: GroupedFaults): string => {
  const first = Object.keys(errors)
    .slice(0, 5)
    .map((location) => cut(location, 64))
  const rest = omitted === 0 ? "" : ` At least ${omitted} more ${omitted === 1 ? "fault is" : "faults are"} left out.`
  return `See errors: ${first.join(", ")}.${rest}`
}

const must = (message: string) =>
  message
    .replace(/^Expected /, "must be ")
    // A name such as `DeveloperClient` is the name of an object schema in the OpenAPI document. Messages do not show these
    // names.
    .replace(/^must be Developer\w+/, "must be an object")
    .replace(/^must be (string|number|boolean)\b/, "must be a $1")
    .replace(/^must be (array|object|integer)\b/, "must be an $1")
    .replaceAll(" | ", " or ")

/** The message for a member that a schema does not have. */
export const unknown = "is not known here"

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => {
    switch (issue._tag) {
      case "MissingKey":
        return "is required"
      case "UnexpectedKey":
        return unknown
      default:
        return SchemaIssue.defaultLeafHook(issue)
    }
  },
  checkHook: (issue) => {
    const expected = issue.filter.annotations?.["expected"]
    return SchemaIssue.defaultCheckHook(issue) ?? (typeof expected === "string" ? `must be ${expected}` : undefined)
  }
})

export interface Fault {
  readonly path: ReadonlyArray<PropertyKey>
  readonly message: string
  /** The members that the object may have. Only a fault of an unknown member has this list. */
  readonly known?: ReadonlyArray<string>
}

/** Lists the faults of an issue tree, in the order of the schema: all of them, or the first `limit`. */
export const faultsOf = (issue: SchemaIssue.Issue, limit = Number.POSITIVE_INFINITY): ReadonlyArray<Fault> => {
  const faults: Array<Fault> = []
  for (const fault of faultsAt(issue, [], "")) {
    if (faults.length >= limit) break
    faults.push(fault)
  }
  return faults
}

/**
 * Lists the faults at a path. The message for a string or a number states the whole rule, so that a value that follows the
 * message has no further fault. `otherwise` is a text for the other values that a union allows, such as null.
 */
function* faultsAt(issue: SchemaIssue.Issue, path: Fault["path"], otherwise: string): Iterable<Fault> {
  switch (issue._tag) {
    case "Pointer":
      return yield* faultsAt(issue.issue, [...path, ...issue.path], "")
    case "Encoding":
      return yield* faultsAt(issue.issue, path, otherwise)
    case "AnyOf": {
      const [only, ...others] = issue.ast.types.filter(({ _tag }) => _tag !== "Null")
      const orNull = others.length + 1 < issue.ast.types.length ? ", or null" : otherwise
      for (const inner of issue.issues) yield* faultsAt(inner, path, orNull)
      if (issue.issues.length > 0) return
      return yield* only === undefined || others.length > 0
        ? leafFaults(issue, path, otherwise)
        : faultsAt(new SchemaIssue.InvalidType(only.encoding?.at(-1)?.to ?? only), path, orNull)
    }
    case "Composite": {
      const rule = issue.issues.every(isOfRule) ? ruleOf(issue.ast) : undefined
      if (rule !== undefined) return yield { path, message: `must be ${rule}${otherwise}` }
      for (const inner of issue.issues) yield* faultsAt(inner, path, otherwise)
      return
    }
    case "InvalidType": {
      const rule = ruleOf(issue.ast)
      if (rule !== undefined) return yield { path, message: `must be ${rule}${otherwise}` }
      return yield* leafFaults(issue, path, otherwise)
    }
    case "UnexpectedKey":
      for (const fault of leafFaults(issue, path, "")) yield { ...fault, known: membersOf(issue.ast) }
      return
    default:
      yield* leafFaults(issue, path, otherwise)
  }
}

const leafFaults = (issue: SchemaIssue.Issue, path: Fault["path"], otherwise: string): ReadonlyArray<Fault> =>
  format(issue).issues.map((leaf) => {
    const inner = (leaf.path ?? []).map((segment) => (typeof segment === "object" ? segment.key : segment))
    const message = must(leaf.message)
    return { path: [...path, ...inner], message: message.startsWith("must be ") ? `${message}${otherwise}` : message }
  })

export const membersOf = (ast: SchemaAST.AST): ReadonlyArray<string> =>
  ast._tag === "Objects" ? ast.propertySignatures.map(({ name }) => String(name)) : []

const isOfRule = (issue: SchemaIssue.Issue) =>
  issue._tag === "Filter" && SchemaIssue.defaultCheckHook(issue) === undefined

/** Returns the rule of a string or a number. The last check names everything that is expected. */
const ruleOf = ({ _tag, annotations, checks }: SchemaAST.AST): string | undefined => {
  const expected = checks?.at(-1)?.annotations?.["expected"]
  const isPlain = (_tag === "String" || _tag === "Number") && annotations?.["message"] === undefined
  return isPlain && typeof expected === "string" ? expected : undefined
}

/** Options that report every fault, unknown members included. */
export const strict = { errors: "all", onExcessProperty: "error" } as const

/** Narrows the type of a schema: every schema of this API decodes without services, which the types of endpoints do not express. */
export const isSelfContained = (schema: Schema.Top): schema is Schema.Top & Schema.ConstraintDecoder<unknown> =>
  Schema.isSchema(schema)

/** Lists the faults of one part of a request, each with its location. */
export const faultsOfSlot = (
  name: "path" | "header" | "query" | "body",
  schema: Schema.Top | undefined,
  input: unknown,
  options: { readonly errors: "all"; readonly onExcessProperty?: "error" }
): ReadonlyArray<LocatedFault> => {
  if (schema === undefined || !isSelfContained(schema)) return []
  const result = Schema.decodeUnknownResult(schema, options)(input)
  if (Result.isSuccess(result)) return []
  return located(name, result.failure.issue)
}

/** Returns the message for an unknown query parameter. The message names all known parameters, because an operation has few. */
const unknownParameter = (known: ReadonlyArray<string>): string =>
  `${unknown}: this operation ${known.length === 0 ? "has no query parameters" : `knows ${known.join(", ")}`}`

/** Maximum number of known members that a message names. No object of the API has more. */
const maxNamed = 20

const unknownMember = (known: ReadonlyArray<string>): string =>
  known.length === 0
    ? unknown
    : `${unknown}: the known members are ${known.slice(0, maxNamed).join(", ")}${known.length > maxNamed ? ", …" : ""}`

/** Lists the faults of a part of a request that an operation does not take. */
export const unknownMembers = (name: "path" | "header" | "query", input: unknown): ReadonlyArray<LocatedFault> =>
  Object.keys(Predicate.isObject(input) ? input : {})
    .slice(0, maxFaults + 1)
    .map((member) => [locationOf(name, [member]), name === "query" ? unknownParameter([]) : unknown])

export const unexpectedBody: LocatedFault = ["body", "must be absent: this operation takes no body"]

/** Lists the faults of the members of a body, then those of its structural rules. */
export const faultsOfBody = (schema: Schema.Top, body: unknown): ReadonlyArray<LocatedFault> => [
  ...faultsOfVariant(schema, body),
  ...faultsOfRules(schema, body)
]

/** Returns the member and the literals that select a variant of a body; undefined if the body has no variants. */
const discriminatorOf = ({ ast }: Schema.Top) => {
  if (!SchemaAST.isUnion(ast) || ast.options?.mode !== "oneOf") return undefined
  const first = ast.types.flatMap((variant) =>
    SchemaAST.isObjects(variant) ? variant.propertySignatures.slice(0, 1) : []
  )
  const values = first.flatMap(({ type }) => (SchemaAST.isLiteral(type) ? [String(type.literal)] : []))
  return { member: String(first[0]?.name), values }
}

/**
 * Lists the faults of the members of a body. If the discriminator has a fault, lists this fault alone, because the discriminator
 * decides which members are required.
 */
const faultsOfVariant = (schema: Schema.Top, body: unknown): ReadonlyArray<LocatedFault> => {
  const discriminator = discriminatorOf(schema)
  if (discriminator === undefined || !Predicate.isObject(body)) return faultsOfSlot("body", schema, body, strict)
  const { member, values } = discriminator
  if (!Object.hasOwn(body, member)) return [[`body/${member}`, "is required"]]
  const value = body[member]
  return Predicate.isString(value) && values.includes(value)
    ? faultsOfSlot("body", schema, body, strict)
    : [[`body/${member}`, `must be one of ${values.join(", ")}`]]
}

/** Lists the faults of the rules that check only whether members are present. Other rules between members are checked by decoding. */
const faultsOfRules = ({ ast }: Schema.Top, body: unknown): ReadonlyArray<LocatedFault> =>
  Predicate.isObject(body)
    ? (ast.checks ?? []).flatMap((check) => {
        const isRule = check._tag === "Filter" && check.annotations?.["~structural"] === true
        const issue = isRule ? check.run(body, ast, strict) : undefined
        return issue === undefined || !isRule ? [] : located("body", new SchemaIssue.Filter(check, issue))
      })
    : []

const located = (slot: string, issue: SchemaIssue.Issue): ReadonlyArray<LocatedFault> =>
  faultsOf(issue, maxFaults + 1).map(({ known, message, path }) => [
    locationOf(slot, path),
    known === undefined ? message : slot === "query" ? unknownParameter(known) : unknownMember(known)
  ])
