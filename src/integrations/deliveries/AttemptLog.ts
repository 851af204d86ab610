/** The attempt log of a delivery (contract §10): its entries, and their bounds. */
import type { SqlClient, Statement } from "effect/sql"
import { formatInstant } from "../../sql/Instants.ts"
import type { Result } from "./DeliveryLoop/Results.ts"

/** A delivery keeps this many of its newest attempts, and the `responseBody` of fewer. */
const keptAttempts = 30
const keptBodies = 5

/** The entry of an attempt, as a JSON array. If the log is empty, PostgreSQL stores this array without copying it. */
export const entryOf = ({
  attempt,
  endpointUrl,
  errorCode,
  finishedAt,
  responseBody,
  startedAt,
  statusCode
}: Result): string =>
  `[{"number":${attempt},"startedAt":"${formatInstant(startedAt)}","finishedAt":"${formatInstant(finishedAt)}",` +
  `"statusCode":${statusCode},"errorCode":${JSON.stringify(errorCode)},"durationMs":${finishedAt - startedAt},"endpointUrl":${JSON.stringify(endpointUrl)}` +
  (responseBody === null ? "}]" : `,"responseBody":${JSON.stringify(responseBody)}}]`)

/** An SQL expression over `deliveries`: the attempt log with one more entry (jsonb), cut to its bounds. The oldest come first. */
export const logWith = (sql: SqlClient.SqlClient, entry: Statement.Fragment) => {
  const [attempts, bodies] = [sql.literal(String(keptAttempts)), sql.literal(String(keptBodies))]
  return sql`CASE
    WHEN jsonb_array_length(attempt_log) < ${bodies} THEN attempt_log || ${entry}
    ELSE (
      SELECT jsonb_agg(CASE WHEN age < ${bodies} THEN attempt ELSE attempt - 'responseBody' END)
      FROM jsonb_array_elements(attempt_log || ${entry}) WITH ORDINALITY AS logged (attempt, place), LATERAL (
        SELECT jsonb_array_length(attempt_log) + 1 - place AS age
      ) AS aged WHERE age < ${attempts}
    )
  END`
}
