/** Runs actions of operators (contract §13), and audits each: a mutation of the API, or a statement of the action's own. */
import { Effect } from "effect"
import { SqlClient, type SqlError, type Statement } from "effect/sql"
import { ServiceUnavailable, ValidationFailed } from "../api/Problems.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { type Audited, Operator, recordAction } from "./Audit.ts"
import { noSuchRecord, type ProjectUnknown, Refused, requireProject } from "./Refusals.ts"
import { newId } from "../platform/Ids.ts"
import { command, type Mutation } from "../commands/Command.ts"
import { mutate, Mutations } from "../commands/Mutations.ts"

interface AuditedAction extends Pick<Audited, "action" | "detail"> {
  readonly projectId: ProjectId
  /** The id of the record that the action changes. */
  readonly id: string
  /** The key of the command. */
  readonly once: string
}

/**
 * Runs a mutation as an action of an operator. If the record changes, the same statement writes the audit entry. Returns what the mutation
 * returns in its first run, and null in a repetition with the same key.
 */
export const actByMutation = Effect.fnUntraced(function* <Returned = null>(
  { id, once, projectId, ...entry }: AuditedAction,
  mutation: Mutation<object>
) {
  const sql = yield* SqlClient.SqlClient
  const { actor } = yield* Operator
  yield* requireProject(sql, projectId)
  const effect = sql`${mutation.effect},
    commanded AS (SELECT project_id FROM applied WHERE changed),
    ${recordAction(sql, { ...entry, actor, target: id }, "commanded")}`
  const request = command(projectId, {
    endpoint: { identifier: `operator.${entry.action}` },
    headers: { "idempotency-key": `opr_${once}` },
    params: { id }
  })
  const { returned } = yield* mutate<object, Returned>(yield* Mutations, request, { ...mutation, effect }).pipe(
    Effect.catch((problem): Effect.Effect<never, ProjectUnknown | Refused | ServiceUnavailable | SqlError.SqlError> =>
      Effect.andThen(
        // The project may have been moved or deleted meanwhile.
        requireProject(sql, projectId),
        // After a commit whose answer was lost, nothing tells whether the record was changed.
        Effect.fail(problem instanceof ServiceUnavailable ? problem : new Refused({ message: messageOf(problem) }))
      )
    )
  )
  return returned
})

/** Returns a new key of an action: 32 hexadecimal digits. */
export const newOnce = Effect.map(newId("opr"), (id) => id.slice(4))

/** Runs a statement that changes a record and audits it. If the statement returns no row, the project or the record is unknown. */
export const actByStatement = Effect.fnUntraced(function* <Row extends object>(
  { id, kind, projectId }: { readonly projectId: ProjectId; readonly kind: string; readonly id: string },
  statement: (sql: SqlClient.SqlClient, actor: string) => Statement.Statement<Row>
) {
  const sql = yield* SqlClient.SqlClient
  const { actor } = yield* Operator
  const [row] = yield* statement(sql, actor)
  if (row !== undefined) return row
  yield* requireProject(sql, projectId)
  return yield* noSuchRecord(projectId, kind, id)
})

const messageOf = (problem: object) => {
  if (!(problem instanceof ValidationFailed))
    return "detail" in problem ? String(problem.detail) : "Nothing was changed."
  return Object.entries(problem.errors)
    .map(([name, faults]) => `${name.replace("body/", "")} ${faults.join(", ")}`)
    .join("; ")
}
