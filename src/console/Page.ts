/** What a page is: its content from the query of its address, read from the database within a second. */
import { Data, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Instant } from "../api/Instant.ts"
import { ProjectId } from "../api/Ids.ts"
import type { Session } from "./Sessions.ts"
import type { Html } from "./Html.ts"

/** Rows on a page. */
export const pageSize = 50

/** The page names what is not there, or its query is wrong. */
export class NotShown extends Data.TaggedError("NotShown")<{
  readonly status: 400 | 404
  readonly message: string
}> {}

export interface Content {
  readonly title: string
  readonly project?: ProjectId
  readonly body: ReadonlyArray<Html>
}

/** What a page is asked for. */
export interface Asked {
  readonly query: URLSearchParams
  readonly session: Session
}

/** The text of a member of the query; null where it is absent or empty. */
export const textOf = ({ query }: Asked, name: string): string | null => query.get(name) || null

/** One of some words; null where it is absent. */
export const wordOf = <Word extends string>(asked: Asked, name: string, words: ReadonlyArray<Word>) => {
  const text = textOf(asked, name)
  const word = words.find((known) => known === text)
  return text !== null && word === undefined
    ? Effect.fail(new NotShown({ status: 400, message: `"${name}" is one of ${words.join(", ")}.` }))
    : Effect.succeed(word ?? null)
}

const instant = Schema.decodeUnknownEffect(Instant)

/** A time; null where it is absent. */
export const timeOf = (asked: Asked, name: string) => {
  const text = textOf(asked, name)
  return text === null
    ? Effect.succeed(null)
    : Effect.mapBoth(instant(text), {
        onSuccess: (at) => new Date(at),
        onFailure: () => new NotShown({ status: 400, message: `"${name}" is a time such as 2026-11-20T10:00:00Z.` })
      })
}

export const missing = (what: string, id: string | null) =>
  new NotShown({ status: 404, message: `There is no ${what} "${id ?? ""}".` })

/** The project that the query names. */
export const projectOf = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  asked: Asked
): Effect.fn.Return<{ readonly id: ProjectId; readonly name: string }, NotShown> {
  const id = textOf(asked, "project")
  const rows = yield* Effect.orDie(sql<{ readonly id: ProjectId; readonly name: string }>`
    SELECT project_id AS id, name FROM projects WHERE project_id = ${id}::text`)
  return rows[0] ?? (yield* missing("project", id))
})

/**
 * Reads a page in one transaction of a second at most. The pool is that of reports, whose plans are for many rows; pages look
 * up few, by indexes.
 */
export const reading = <A, E, R>(sql: SqlClient.SqlClient, effect: Effect.Effect<A, E, R>) =>
  sql.withTransaction(
    Effect.andThen(
      sql`
        SELECT set_config('enable_seqscan', 'off', true), set_config('enable_nestloop', 'on', true),
          set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
          set_config('statement_timeout', '1s', true)`,
      effect
    )
  )
