/** Names statements of SQL by their verb and table, such as `INSERT clients`. */

interface Name {
  /** The verb and the table; the verb alone if the statement has no table, such as `COMMIT`. */
  readonly summary: string
  readonly operation: string
  readonly collection: string | undefined
}

/** Tables that mutations write beside the table that they are about. */
const beside = new Set(["idempotency_keys", "projects"])

/** Locks of rows and actions of conflicts (`FOR NO KEY UPDATE`, `DO UPDATE`) are no changes. */
const changes =
  /\b(INSERT)\s+INTO\s+"?(\w+)|(?<!\b(?:FOR|KEY|DO)\s+)\b(UPDATE)\s+(?:ONLY\s+)?"?(\w+)|\b(DELETE)\s+FROM\s+"?(\w+)/g

/** What follows FROM or JOIN, except calls of functions. FROM is also a word of `extract` and of IS DISTINCT FROM. */
const sources = /(?<!\bextract\(\w+\s+|\bDISTINCT\s+)\b(?:FROM|JOIN)\s+(?:LATERAL\s+)?"?(\w+)\b"?(?!\s*[(.])/g

/** The names of common table expressions, which are no tables. */
const expressions = /(\w+)\s*(?:\([^()]*\)\s*)?\bAS\s+(?:(?:NOT\s+)?MATERIALIZED\s+)?\(/g

const nameOf = (text: string): Name => {
  const changed = [...text.matchAll(changes)].map((match) => match.slice(1).filter((part) => part !== undefined))
  const [operation, collection] = changed.find(([, table = ""]) => !beside.has(table)) ?? changed[0] ?? []
  if (operation !== undefined) return named(operation, collection)
  const own = new Set([...text.matchAll(expressions)].map(([, name]) => name))
  const read = [...text.matchAll(sources)].map(([, table]) => table).find((table) => !own.has(table))
  const [first = "SQL"] = /\w+/.exec(text) ?? []
  return named(first === "WITH" ? "SELECT" : first, read)
}

const named = (operation: string, collection: string | undefined): Name => ({
  summary: collection === undefined ? operation : `${operation} ${collection}`,
  operation,
  collection
})

/** Maximum number of texts whose names are kept. The service has fewer, unless it composes texts from what it is given. */
const maxNames = 1_000

export const makeStatementNames = (): ((text: string) => Name) => {
  const names = new Map<string, Name>()
  return (text) => {
    const known = names.get(text)
    if (known !== undefined) return known
    if (names.size >= maxNames) names.clear()
    const name = nameOf(text)
    names.set(text, name)
    return name
  }
}
