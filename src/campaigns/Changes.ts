/** The commands that change columns of a campaign. Each command has values to set and guards to check. */
import { Data, DateTime, Option, Result } from "effect"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import type { CommandOf, Operation } from "../api/campaigns/Commands.ts"
import type { CampaignId, ChannelId, ProjectId, TemplateId } from "../api/schema/Ids.ts"
import { assignmentList, differ, patchList } from "../sql/Columns.ts"
import type { Mutation, Refusal } from "../commands/Command.ts"
import type { EventContext } from "../outbox/Outbox.ts"
import { commandOn, type Conflict, campaignStateAfter, versionGuard } from "./CommandStatement.ts"
import { ScheduleInvalid } from "../api/Problems.ts"
import { isDay } from "../api/schema/Fields.ts"

/** The project's time zone has changed since a local time was converted. */
class ZoneChanged extends Data.TaggedError("ZoneChanged")<{ readonly timeZone: string }> {}

const settable = {
  name: "name",
  primaryTemplateId: "primary_template_id",
  primaryTemplateVersion: ["primary_template_version", "bigint"],
  primaryChannelId: "primary_channel_id",
  fallbackTemplateId: "fallback_template_id",
  fallbackTemplateVersion: ["fallback_template_version", "bigint"],
  fallbackChannelId: "fallback_channel_id",
  scheduledFor: ["scheduled_for", "timestamptz"],
  scheduledForLocal: "scheduled_for_local",
  timeZone: "time_zone",
  sendsPerMinute: ["sends_per_minute", "integer"]
} as const

const patchedValues = patchList(settable)
const columns = { ...settable, status: "status" } as const
const differs = differ(columns, "next", "target")
const assignments = assignmentList(columns, "next")

interface References {
  readonly templateId?: TemplateId
  readonly templateVersion?: number
  readonly channelId?: ChannelId
}

interface Start {
  /** Why the campaign can't start at the local time; null if it can. */
  readonly fault: string | null
  /** The zone by which the local time was converted. */
  readonly timeZone: string
}

/**
 * What a command sets and checks. The state of the campaign is checked for every command. Columns that are not in `values` keep
 * their values.
 */
interface Change {
  readonly operation: Operation
  readonly values: Partial<Record<keyof typeof settable, string | number | null | undefined>>
  readonly expectedVersion?: number
  readonly references?: References
  readonly start?: Start
}

const primary = ({ channelId, templateId, templateVersion }: References) => ({
  primaryTemplateId: templateId,
  primaryTemplateVersion: templateVersion,
  primaryChannelId: channelId
})

const fallback = ({ channelId, templateId, templateVersion }: References) => ({
  fallbackTemplateId: templateId ?? null,
  fallbackTemplateVersion: templateVersion ?? null,
  fallbackChannelId: channelId ?? null
})

/** Formats a time for PostgreSQL. ISO 8601 puts a sign before years beyond 9999, which PostgreSQL does not accept. */
const timestamp = (at: Date) => at.toISOString().replace(/^\+0*/, "")

/**
 * If the local time is invalid, `scheduling` does not fail, but returns `fault`, because conflicts with the campaign's state
 * come first.
 */
export const scheduling = (
  { operation, scheduledForLocal: local, sendsPerMinute }: CommandOf<"schedule">,
  timeZone: string,
  now: Date
): Change => {
  const at = local === null ? Result.succeed(now) : instantOf(local, timeZone, now)
  return {
    operation,
    values: {
      scheduledFor: Option.getOrNull(Option.map(Result.getSuccess(at), timestamp)),
      scheduledForLocal: local,
      timeZone,
      sendsPerMinute
    },
    start: { fault: Option.getOrNull(Result.getFailure(at)), timeZone }
  }
}

export const changeOf = (
  command: CommandOf<Exclude<Operation, "delete" | "duplicate" | "freeze_audience" | "schedule">>
): Change => {
  const { operation } = command
  switch (command.operation) {
    case "rename":
      return { operation, values: { name: command.name }, expectedVersion: command.expectedVersion }
    case "bind_template":
    case "bind_sender":
    case "set_primary_route":
      return { operation, values: primary(command), references: command }
    case "set_fallback_route":
      return { operation, values: fallback(command), references: command }
    case "remove_fallback_route":
      return { operation, values: fallback({}) }
    case "pause":
    case "resume":
    case "cancel":
      return { operation, values: {} }
  }
}

const none = (sql: Sql) => sql.literal("")

/**
 * SQL for an array of the command's members that reference a missing record. Takes no lock, because
 * templates and channels are never removed.
 */
const missingReferences = (sql: Sql, projectId: ProjectId, { channelId, templateId, templateVersion }: References) => {
  const templates = sql`SELECT FROM templates WHERE project_id = ${projectId} AND id = ${templateId ?? null}::text`
  return sql`array_remove(ARRAY[
    CASE
      WHEN ${templateId ?? null}::text IS NULL
        OR EXISTS (${templates} AND version = ${templateVersion ?? null}::bigint) THEN NULL
      WHEN EXISTS (${templates}) THEN 'templateVersion'
      ELSE 'templateId'
    END,
    CASE WHEN ${channelId ?? null}::text IS NOT NULL AND NOT EXISTS (
      SELECT FROM channels WHERE project_id = ${projectId} AND id = ${channelId ?? null}::text
    ) THEN 'channelId' END
  ], NULL)`
}

const referenceConflicts = (sql: Sql, projectId: ProjectId, references: References) => sql`
  WHEN ${missingReferences(sql, projectId, references)} <> '{}'
    THEN array_prepend('campaign_reference_not_found', ${missingReferences(sql, projectId, references)})
  WHEN EXISTS (
    SELECT FROM channels
    WHERE project_id = ${projectId} AND id = ${references.channelId ?? null}::text AND status = 'revoked'
  ) THEN ARRAY['campaign_state_conflict', 'channel']`

/** SQL for an array of the parts that a campaign lacks before it can be scheduled. */
const lacking = `array_remove(ARRAY[
  CASE WHEN num_nulls(target.primary_template_id, target.primary_channel_id) > 0 THEN 'primary_route' END,
  CASE WHEN frozen.id IS NULL THEN 'audience' WHEN frozen.eligible_count = 0 THEN 'eligible_recipients' END
], NULL)`

const startConflicts = (sql: Sql, { fault, timeZone }: Start) => sql`
  WHEN command.time_zone <> ${timeZone}::text THEN ARRAY['zone_changed', command.time_zone]
  WHEN ${fault}::text IS NOT NULL THEN ARRAY['schedule_invalid', ${fault}::text]
  WHEN ${sql.literal(lacking)} <> '{}' THEN array_prepend('campaign_not_ready', ${sql.literal(lacking)})`

export const change = (
  sql: Sql,
  projectId: ProjectId,
  id: CampaignId,
  { expectedVersion, operation, references, start, values }: Change,
  { at, traceparent }: Pick<EventContext, "at" | "traceparent">
): Mutation<Conflict | ZoneChanged> => {
  const command = commandOn(sql, projectId, id, operation, at, {
    before: sql`
      patch AS (SELECT ${JSON.stringify(values)}::jsonb AS p),
      next AS MATERIALIZED (
        SELECT ${sql.literal(patchedValues)}, ${sql.literal(campaignStateAfter(operation))} AS status FROM target, patch
      ),`,
    from: sql`LEFT JOIN next ON true`,
    conflicts: sql`
      ${expectedVersion === undefined ? none(sql) : versionGuard(sql, expectedVersion)}
      ${references === undefined ? none(sql) : referenceConflicts(sql, projectId, references)}
      ${start === undefined ? none(sql) : startConflicts(sql, start)}`,
    changed: sql.literal(differs),
    version: sql`target.version + (${sql.literal(differs)})::int`,
    effect: sql`
      updated AS (
        UPDATE campaigns SET ${sql.literal(assignments)},
          paused_from = CASE WHEN next.status = 'paused' THEN coalesce(target.paused_from, target.status) END,
          resumed_at = CASE
            WHEN target.status = 'paused' AND next.status IN ('scheduled', 'running') THEN ${at}::timestamptz
            ELSE campaigns.resumed_at
          END,
          traceparent = ${traceparent}::text,
          version = campaigns.version + 1, updated_at = greatest(campaigns.updated_at, ${at}::timestamptz)
        FROM applied, next, target
        WHERE campaigns.project_id = ${projectId} AND campaigns.id = ${id} AND applied.changed
      )`
  })
  const zone_changed = ({ faults: [timeZone = ""] }: Refusal) => new ZoneChanged({ timeZone })
  return { ...command, problems: { ...command.problems, zone_changed } }
}

const localPattern = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2})$/

/**
 * Returns the instant of a local time in a zone. If the time occurs twice, returns the earlier instant. Fails with a readable
 * message if the calendar lacks the date, the clocks skip the time, or the instant is before `now`.
 */
export const instantOf = (local: string, timeZone: string, now: Date): Result.Result<Date, string> => {
  const [, year, month, day, hour, minute] = (localPattern.exec(local) ?? []).map(Number)
  if (year === undefined || month === undefined || day === undefined || hour === undefined || minute === undefined) {
    return Result.fail(`${local} is no local time.`)
  }
  if (!isDay(year, month, day) || hour > 23 || minute > 59) return Result.fail(`${local} is in no calendar.`)
  const shown = new Date(0)
  // Not Date.UTC, which maps years below 100 to the 20th century.
  shown.setUTCFullYear(year, month - 1, day)
  shown.setUTCHours(hour, minute)
  const zoned = DateTime.makeZoned(shown, { timeZone, adjustForTimeZone: true, disambiguation: "earlier" })
  if (Option.isNone(zoned)) return Result.fail(`The project's time zone ${timeZone} is not known here.`)
  // If the clocks skip this local time, `zoned` shows another local time.
  if (DateTime.toDate(zoned.value).getTime() !== shown.getTime()) {
    return Result.fail(`The clocks of ${timeZone} skip ${local}.`)
  }
  const instant = DateTime.toDateUtc(zoned.value)
  return instant < now ? Result.fail(ScheduleInvalid.detail(local, timeZone)) : Result.succeed(instant)
}
