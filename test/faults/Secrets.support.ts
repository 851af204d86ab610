/** Secrets of services, and the text of a database, which must not contain them. */
import { serviceEnv } from "./Projects.support.ts"
import { headerValue } from "./Mix.project.support.ts"
import { secrets as ofProviders } from "./Providers.support.ts"

/** Returns the secrets that every service of a test has. */
export const givenSecrets = (databaseUrl: string): ReadonlyArray<readonly [string, string]> => [
  ["SECRET_KEY", serviceEnv(databaseUrl).SECRET_KEY],
  ["the password of the database", decodeURIComponent(new URL(databaseUrl).password)],
  ["the signing secret of a channel", ofProviders.signingSecret],
  ["the token of a bot", ofProviders.token],
  ["the value of a header", headerValue]
]

/** Returns every row of every table as text; binary columns are in hex. */
export const dump = async (query: (text: string) => Promise<ReadonlyArray<Record<string, unknown>>>) => {
  const tables = await query(`
    SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE relkind IN ('r', 'm') AND nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema' ORDER BY 1`)
  const texts = new Map<string, string>()
  for (const { name } of tables) {
    const [row] = await query(`SELECT coalesce(string_agg(t::text, E'\\n'), '') AS text FROM ${String(name)} AS t`)
    texts.set(String(name), String(row?.["text"]))
  }
  return texts
}
