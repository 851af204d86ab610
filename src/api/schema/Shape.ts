/** Faults in the shape of a request. */
import { Predicate, Result, Schema, SchemaAST, SchemaIssue } from "effect"
import { faultsOf, unknown } from "./Faults.ts"
import { type LocatedFault, locationOf, maxFaults } from "./Locations.ts"

/** Options that report every fault, unknown members included. */
export const strict = { errors: "all", onExcessProperty: "error" } as const

/**
 * Narrows the type of a schema. Every schema of this API decodes without services, but the types of endpoints do not express
 * this.
 */
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

/**
 * Returns the discriminator of a body with variants: the name of the first member, and the literals that select a variant.
 * Returns undefined if the body has no variants.
 */
const discriminatorOf = ({ ast }: Schema.Top) => {
  if (!SchemaAST.isUnion(ast) || ast.options?.mode !== "oneOf") return undefined
  const first = ast.types.flatMap((variant) =>
    SchemaAST.isObjects(variant) ? variant.propertySignatures.slice(0, 1) : []
  )
  const values = first.flatMap(({ type }) => (SchemaAST.isLiteral(type) ? [String(type.literal)] : []))
  return { member: String(first[0]?.name), values }
}

/**
 * Lists the faults of the members of a body. If the discriminator is missing or unknown, only this fault is reported, because the
 * required members depend on the variant.
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

/**
 * Lists the faults of the structural rules of a body, which check only whether members are present. Other rules between members
 * are checked by decoding, if every member is valid.
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
  faultsOf(issue, maxFaults + 1).map(({ known, message, path }) => [
    locationOf(slot, path),
    known === undefined ? message : slot === "query" ? unknownParameter(known) : unknownMember(known)
  ])
