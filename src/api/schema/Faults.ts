/** Formats schema issues as messages for people, in one style for requests, settings and files. */
import { type SchemaAST, SchemaIssue } from "effect"

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
        : faultsAt(new SchemaIssue.InvalidType(encodedOf(only)), path, orNull)
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

/** Returns the schema of a value before it is decoded. */
const encodedOf = (ast: SchemaAST.AST): SchemaAST.AST => ast.encoding?.at(-1)?.to ?? ast

/** Whether an issue is a failed check without a message of its own. */
const isOfRule = (issue: SchemaIssue.Issue) =>
  issue._tag === "Filter" && SchemaIssue.defaultCheckHook(issue) === undefined

/** Returns the rule of a string or a number. The last check names everything that is expected. */
const ruleOf = ({ _tag, annotations, checks }: SchemaAST.AST): string | undefined => {
  const expected = checks?.at(-1)?.annotations?.["expected"]
  const isPlain = (_tag === "String" || _tag === "Number") && annotations?.["message"] === undefined
  return isPlain && typeof expected === "string" ? expected : undefined
}
