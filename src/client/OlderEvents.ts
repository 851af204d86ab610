/** Decoding of events that were stored before a member was added to their schema. */
import { Predicate, Schema, SchemaAST } from "effect"

/**
 * Returns a function that adds null for each absent member that the schema allows to be null, at any depth. New members of
 * events can always be null. So the schema also decodes an older event after this function has completed it.
 */
export const withAbsentAsNull = (schema: Schema.Top): ((json: unknown) => unknown) => {
  const { ast } = Schema.toEncoded(schema)
  return (json) => complete(ast, json)
}

const complete = (ast: SchemaAST.AST, json: unknown): unknown => {
  if (SchemaAST.isUnion(ast)) return ast.types.reduce((value, member) => complete(member, value), json)
  if (SchemaAST.isArrays(ast) && Array.isArray(json)) {
    const [item] = ast.rest
    return item === undefined ? json : json.map((value: unknown) => complete(item, value))
  }
  if (!SchemaAST.isObjects(ast) || !Predicate.isObject(json)) return json
  const members = new Map(Object.entries(json))
  for (const { name, type } of ast.propertySignatures) {
    const member = String(name)
    if (members.has(member)) members.set(member, complete(type, members.get(member)))
    else if (acceptsNull(type) && !SchemaAST.isOptional(type)) members.set(member, null)
  }
  return Object.fromEntries(members)
}

const acceptsNull = (ast: SchemaAST.AST): boolean =>
  SchemaAST.isNull(ast) || (SchemaAST.isUnion(ast) && ast.types.some(acceptsNull))
