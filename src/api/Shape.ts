/** What is wrong with the form of a request: what the service answers, and what keeps the client from sending it. */
import { Predicate, Result, Schema, SchemaIssue } from "effect"
import { faultsOf } from "./Faults.ts"
import { type LocatedFault, pointer } from "./Locations.ts"
import { discriminatorOf } from "./Variants.ts"

/** Every fault at once, and a member that is not known is one. */
export const strict = { errors: "all", onExcessProperty: "error" } as const

/** No schema of this API needs a service to decode; the framework's types have forgotten that where they are walked. */
export const isSelfContained = (schema: Schema.Top): schema is Schema.Top & Schema.ConstraintDecoder<unknown> =>
  Schema.isSchema(schema)

/** The faults of one part of a request, each at its location. */
export const faultsOfSlot = (
  name: "path" | "header" | "query" | "body",
  schema: Schema.Top | undefined,
  input: unknown,
  options: { readonly errors: "all"; readonly onExcessProperty?: "error" }
): ReadonlyArray<LocatedFault> => {
  if (schema === undefined || !isSelfContained(schema)) return []
  const result = Schema.decodeUnknownResult(schema, options)(input)
  return Result.isSuccess(result) ? [] : located(name, result.failure.issue)
}

/** The faults of a part that an operation does not have: all that is in it. */
export const faultsOfNone = (name: "path" | "header" | "query", input: object): ReadonlyArray<LocatedFault> =>
  Object.keys(input).map((member) => [`${name}/${pointer(member)}`, "is not known here"])

/** The fault of a body where the operation has none. */
export const bodyOfNone: LocatedFault = ["body", "must be absent: this operation takes no body"]

/** The faults of a body: of its members, as far as `first` has them, and of the rules between them. */
export const faultsOfBody = (schema: Schema.Top, body: unknown, first = body): ReadonlyArray<LocatedFault> => [
  ...faultsOfVariant(schema, body, first),
  ...faultsOfRules(schema, body)
]

/**
 * For a body without a known discriminator that is the only fault: which other members it needs depends on its variant.
 */
const faultsOfVariant = (schema: Schema.Top, body: unknown, first: unknown): ReadonlyArray<LocatedFault> => {
  const discriminator = discriminatorOf(schema)
  if (discriminator === undefined || !Predicate.isObject(body) || !Predicate.isObject(first)) {
    return faultsOfSlot("body", schema, first, strict)
  }
  const { member, values } = discriminator
  if (!Object.hasOwn(body, member)) return [[`body/${member}`, "is required"]]
  const value = body[member]
  return Predicate.isString(value) && values.includes(value)
    ? faultsOfSlot("body", schema, { [member]: value, ...first }, strict)
    : [[`body/${member}`, `must be one of ${values.join(", ")}`]]
}

/**
 * What the rules between the members of a body say of it. Decoding asks them only once every member is well; those that
 * are marked as structural look at which members are there, and can be asked of anything.
 */
const faultsOfRules = ({ ast }: Schema.Top, body: unknown): ReadonlyArray<LocatedFault> =>
  Predicate.isObject(body)
    ? (ast.checks ?? []).flatMap((check) => {
        const isRule = check._tag === "Filter" && check.annotations?.["~structural"] === true
        const issue = isRule ? check.run(body, ast, strict) : undefined
        return issue === undefined || !isRule ? [] : located("body", new SchemaIssue.Filter(check, issue))
      })
    : []

const located = (slot: string, issue: SchemaIssue.Issue): ReadonlyArray<LocatedFault> =>
  faultsOf(issue).map(({ message, path }) => [
    [slot, ...path.map((segment) => pointer(String(segment)))].join("/"),
    message
  ])

/** The names of the members that schemas have at any depth. */
export const memberNames = (schemas: ReadonlyArray<unknown>): ReadonlySet<string> => {
  const names = new Set<string>()
  for (const schema of schemas) {
    if (Predicate.hasProperty(schema, "fields") && Predicate.isObject(schema.fields)) {
      for (const [name, field] of Object.entries(schema.fields)) {
        names.add(name)
        for (const nested of memberNames([field])) names.add(nested)
      }
    }
    if (Predicate.hasProperty(schema, "schema")) for (const nested of memberNames([schema.schema])) names.add(nested)
    if (Predicate.hasProperty(schema, "members") && Array.isArray(schema.members)) {
      for (const nested of memberNames(schema.members)) names.add(nested)
    }
  }
  return names
}
