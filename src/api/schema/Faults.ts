/** Formats schema issues as messages for people, in one style for requests, settings and files. */
import { SchemaIssue } from "effect"

const must = (message: string) =>
  message
    .replace(/^Expected /, "must be ")
    // A schema with a name in the document is an object; its name means nothing to a caller.
    .replace(/^must be Developer\w+/, "must be an object")
    .replace(/^must be (string|number|boolean)\b/, "must be a $1")
    .replace(/^must be (array|object|integer)\b/, "must be an $1")
    .replaceAll(" | ", " or ")

/** What is said of a member that a schema does not have. */
export const unknown = "is not known here"

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => {
    switch (issue._tag) {
      case "MissingKey":
        return "is required"
      case "UnexpectedKey":
        return unknown
      default:
        return must(SchemaIssue.defaultLeafHook(issue))
    }
  },
  checkHook: (issue) => {
    const expected = issue.filter.annotations?.["expected"]
    return SchemaIssue.defaultCheckHook(issue) ?? (typeof expected === "string" ? `must be ${expected}` : undefined)
  }
})

/** A fault, with the path of members that leads to it. */
export interface Fault {
  readonly path: ReadonlyArray<PropertyKey>
  readonly message: string
}

/** Lists every fault of an issue tree, in the order of the schema. */
export const faultsOf = (issue: SchemaIssue.Issue): ReadonlyArray<Fault> =>
  format(issue).issues.map((issue) => ({
    path: (issue.path ?? []).map((segment) => (typeof segment === "object" ? segment.key : segment)),
    message: must(issue.message)
  }))
