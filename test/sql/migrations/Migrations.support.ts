/** Finds statements that lock a table for a time that grows with its size, and compares migrations with the released ones. */
import { readdir, readFile } from "node:fs/promises"
import * as Path from "node:path"
import { runToEnd } from "../../support/Process.ts"

/** Returns the statements in the text of a migration. */
const statementsOf = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/sql`((?:[^`\\]|\\.)*)`/gs)].map(([, sql = ""]) =>
    sql.replaceAll(/--.*$/gm, "").replaceAll(/\s+/g, " ").trim()
  )

interface Rule {
  readonly matches: RegExp
  /** No fault if this matches too. */
  readonly unless?: RegExp
  readonly advice: string
}

/** Rules for statements on existing tables. */
const rules: ReadonlyArray<Rule> = [
  {
    matches: /^CREATE (UNIQUE )?INDEX\b/i,
    unless: /\bCONCURRENTLY IF NOT EXISTS\b/i,
    advice: "CREATE INDEX locks out writes: use CONCURRENTLY IF NOT EXISTS, in an array of effects"
  },
  { matches: /^DROP INDEX\b/i, unless: /\bCONCURRENTLY IF EXISTS\b/i, advice: "use DROP INDEX CONCURRENTLY IF EXISTS" },
  { matches: /^REINDEX\b/i, unless: /\bCONCURRENTLY\b/i, advice: "use REINDEX CONCURRENTLY" },
  {
    matches: /\bADD (CONSTRAINT \S+ )?(CHECK|FOREIGN KEY)\b/i,
    unless: /\bNOT VALID\b/i,
    advice: "a constraint reads the table under its lock: add it NOT VALID, and VALIDATE it in a migration of its own"
  },
  {
    matches: /\bADD (CONSTRAINT \S+ )?(UNIQUE|PRIMARY KEY|EXCLUDE)\b/i,
    unless: /\bUSING INDEX\b/i,
    advice: "build a unique index CONCURRENTLY, and add the constraint USING INDEX"
  },
  {
    matches: /\bADD COLUMN\b[^,;]*\bCHECK\b/i,
    advice: "a CHECK of a new column reads the table under its lock: add the column, then the constraint NOT VALID"
  },
  { matches: /\bADD COLUMN\b[^,;]*\bREFERENCES\b/i, advice: "add the column, then its foreign key NOT VALID" },
  { matches: /\bADD COLUMN\b[^,;]*\bGENERATED\b/i, advice: "a generated column rewrites the table" },
  {
    matches: /\bADD COLUMN\b[^,;]*\bDEFAULT [a-z_]+\(/i,
    advice: "a default that is computed may rewrite the table: add the column without, and set the default afterwards"
  },
  {
    matches: /\bADD COLUMN\b[^,;]*\bNOT NULL\b/i,
    unless: /\bDEFAULT\b/i,
    advice: "the version before does not fill the column: give it a default"
  },
  { matches: /\bALTER (COLUMN )?\S+ (SET DATA )?TYPE\b/i, advice: "another type rewrites the table: add a column" },
  { matches: /\bSET NOT NULL\b/i, advice: "add CHECK (… IS NOT NULL) NOT VALID, and VALIDATE it" },
  { matches: /\b(DROP COLUMN|RENAME)\b|^DROP TABLE\b/i, advice: "the version before still reads it" },
  { matches: /^(UPDATE|DELETE|INSERT)\b/i, advice: "move data in batches, in the background of the new version" },
  { matches: /^(TRUNCATE|LOCK|CLUSTER|VACUUM)\b/i, advice: "it locks out everything" }
]

/** Statements that take no strong lock but run for long: never in a transaction that holds other locks. */
const alone = /\b(CONCURRENTLY|VALIDATE CONSTRAINT)\b/i

/** Returns the faults in the text of a migration, one line each. */
export const faultsOf = (text: string): ReadonlyArray<string> => {
  const statements = statementsOf(text)
  const created = new Set(statements.flatMap((sql) => /^CREATE TABLE (?:IF NOT EXISTS )?(\w+)/i.exec(sql)?.[1] ?? []))
  const tableOf = (sql: string) => /(?:\bON|^ALTER TABLE|^UPDATE|^INSERT INTO|^DELETE FROM) (\w+)/i.exec(sql)?.[1] ?? ""
  const isArray = /export default \[/.test(text)
  return statements.flatMap((sql) => {
    if (/^CREATE (OR REPLACE )?(FUNCTION|TABLE|(CONSTRAINT )?TRIGGER)\b/i.test(sql)) return []
    const fault = (advice: string) => `${advice}: ${sql.slice(0, 60)}`
    const misplaced = alone.test(sql) && !isArray ? [fault("it belongs into an array of effects")] : []
    if (created.has(tableOf(sql))) return misplaced
    const broken = rules.filter(({ matches, unless }) => matches.test(sql) && unless?.test(sql) !== true)
    return [...misplaced, ...broken.map(({ advice }) => fault(advice))]
  })
}

/** The texts of migrations by file name. */
type Texts = ReadonlyMap<string, string>

/** Returns how migrations contradict the released ones: released migrations never change, and later ones come after them. */
export const contradictions = (released: Texts, now: Texts): ReadonlyArray<string> => {
  const last = [...released.keys()].toSorted().at(-1) ?? ""
  return [
    ...[...released].flatMap(([name, text]) => {
      if (!now.has(name)) return [`${name} is released, and was removed or renamed`]
      return now.get(name) === text ? [] : [`${name} is released, and was changed`]
    }),
    ...[...now.keys()].flatMap((name) =>
      !released.has(name) && name < last ? [`${name} has to come after ${last}`] : []
    )
  ]
}

const git = async (checkout: string, ...args: ReadonlyArray<string>) => {
  const { code, stderr, stdout } = await runToEnd("git", ["-C", checkout, ...args])
  if (code !== 0) throw new Error(`git ${args.join(" ")}: ${stderr}`)
  return stdout
}

/** Reads the migrations of the last tag before the current commit. Returns undefined without a tag, or without a repository. */
export const releasedIn = async (checkout: string): Promise<Texts | undefined> => {
  const described = await runToEnd("git", ["-C", checkout, "describe", "--tags", "--abbrev=0"])
  if (described.code !== 0) return undefined
  const tag = described.stdout.trim()
  const names = (await git(checkout, "ls-tree", "--name-only", `${tag}:migrations`))
    .split("\n")
    .filter((name) => name !== "")
  return new Map(
    await Promise.all(
      names.map(async (name) => [name, await git(checkout, "show", `${tag}:migrations/${name}`)] as const)
    )
  )
}

export const migrationsIn = async (directory: string): Promise<Texts> => {
  const names = await readdir(directory)
  return new Map(
    await Promise.all(names.map(async (name) => [name, await readFile(Path.join(directory, name), "utf8")] as const))
  )
}
