/**
 * Replays (contract §10): stored events of a period are sent to a webhook again. A replay is a row of `replays`. Its
 * deliveries are made a few at a time, by a worker that locks the row, so that other workers skip it. Each delivery has the
 * `webhook-id` of the one that it repeats.
 */
import { Cause, Clock, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../api/schema/Ids.ts"
import { emptyPeriod, type Replay, type ReplayCreate, type ReplayState } from "../api/integrations/Replays.ts"
import { recordAction } from "../operating/Audit.ts"
import { Refused, servedProject } from "../operating/Refusals.ts"
import { isIn, makeList, type RangeByAge, scanLimit, makeShow } from "../operating/Lists.ts"
import { type Columns, selectList } from "../sql/Columns.ts"
import { recordsOf } from "../sql/Lookups.ts"
import { firstIdAt } from "../platform/Ids.ts"
import { InstallationNotFound, ValidationFailed, WebhookStateConflict } from "../api/Problems.ts"
import { type Mutation, plain } from "../commands/Command.ts"
import { actByStatement, actByMutation } from "../operating/AuditedActions.ts"
import { showWebhook } from "./WebhookControl.ts"
import { retentionDays } from "./delivery/DeliveryMaintenance.ts"
import { installationAndWebhook, notRetriable } from "./delivery/Deliveries.ts"
import { forkPeriodic } from "../work/Supervisor.ts"
import { once } from "../sql/Database.ts"
import { Notifier } from "../outbox/Outbox.ts"
import { Settings } from "../platform/Settings.ts"
import { untraced } from "../telemetry/Telemetry.ts"
import { isAwake } from "../platform/MoveState.ts"

interface Listed extends Replay {
  readonly installationId: InstallationId
}

const columns = {
  id: "id",
  installationId: "installation_id",
  since: ["since", "timestamptz"],
  until: ["until", "timestamptz"],
  eventTypes: "event_types",
  status: "status",
  state: "state",
  made: "made",
  createdAt: ["created_at", "timestamptz"],
  finishedAt: ["finished_at", "timestamptz"]
} satisfies Columns

/** Lists replays, newest first. Those of an installation are looked for among the newest `scanLimit` of the range. */
const list = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  { installationId, ...range }: RangeByAge & { readonly installationId: string | null }
) => sql<Listed>`
  SELECT ${sql.literal(selectList(columns))} FROM (
    SELECT * FROM replays WHERE project_id = ${projectId} AND ${isIn(sql, "rpl", range)}
    ORDER BY id DESC LIMIT ${installationId === null ? range.limit + 1 : scanLimit}::int
  ) scanned
  WHERE ${installationId}::text IS NULL OR installation_id = ${installationId}
  ORDER BY id DESC LIMIT ${range.limit + 1}::int`

export const details = (sql: SqlClient.SqlClient) => recordsOf<Listed>(sql, "replays", columns)

/**
 * Cancels a running replay. A replay in another state stays unchanged. Returns the state before. Returns no row if the replay
 * does not exist, or if this database does not serve the project.
 */
const cancel = (sql: SqlClient.SqlClient, actor: string, projectId: ProjectId, id: string) => sql<{
  readonly state: ReplayState
  readonly made: number
}>`
  WITH ${servedProject(sql, projectId)},
  target AS MATERIALIZED (
    SELECT state, made FROM project JOIN replays USING (project_id) WHERE id = ${id} FOR NO KEY UPDATE OF replays
  ),
  cancelled AS (
    UPDATE replays SET state = 'cancelled', finished_at = now() FROM target
    WHERE replays.project_id = ${projectId} AND replays.id = ${id} AND target.state = 'running'
    RETURNING replays.project_id
  ),
  ${recordAction(sql, { actor, action: "replay.cancel", target: id }, "cancelled")}
  SELECT state, made FROM target`

/** The end of the period, `at` at the latest. */
const endOf = ({ until }: Pick<ReplayCreate, "until">, at: Date) =>
  new Date(Math.min(at.getTime(), until === undefined ? Infinity : Date.parse(until)))

/** Events of types to which the webhook does not subscribe are left out. */
export const replay = (
  sql: SqlClient.SqlClient,
  installationId: InstallationId,
  id: string,
  { eventTypes, status, ...asked }: ReplayCreate,
  at: Date
): Mutation<InstallationNotFound | ValidationFailed | WebhookStateConflict> => {
  const since = new Date(asked.since)
  const until = endOf(asked, at)
  const types = eventTypes === undefined ? null : [...eventTypes]
  return {
    at,
    decided: sql`
      ${installationAndWebhook(sql, installationId)},
      decided AS MATERIALIZED (
        SELECT command.*,
          CASE
            WHEN ${since >= until}::boolean THEN 'validation_failed'
            WHEN installation.id IS NULL THEN 'installation_not_found'
            WHEN webhook.enabled IS NOT TRUE THEN 'webhook_state_conflict'
          END AS failure, CASE WHEN NOT webhook.enabled THEN ARRAY['disabled'] END AS faults,
          ${id}::text AS resource_id, true AS changed, NULL::int AS version,
          ARRAY(SELECT type FROM unnest(webhook.event_types) AS type WHERE ${types}::text[] IS NULL OR type = ANY(${types}::text[])) AS types
        FROM command LEFT JOIN installation ON true LEFT JOIN webhook ON true
      )`,
    effect: sql`
      started AS (
        INSERT INTO replays (project_id, id, installation_id, since, until, event_types, status, state, position, created_at)
        SELECT project_id, ${id}::text, ${installationId}::text, ${since}::timestamptz, ${until}::timestamptz, types,
          ${status}::text, 'running', ${firstIdAt("evt", since.getTime())}::text, now()
        FROM applied
      )`,
    problems: {
      ...plain(InstallationNotFound),
      validation_failed: () => new ValidationFailed({ errors: { "body/since": [emptyPeriod] } }),
      webhook_state_conflict: ({ faults: [fault] }) =>
        new WebhookStateConflict(fault === undefined ? undefined : { detail: notRetriable[fault] ?? "" })
    }
  }
}

interface Request {
  readonly projectId: ProjectId
  readonly installationId: string
  readonly once: string
  readonly asked: ReplayCreate
}

/** Starts a replay of the events of a period, which ends now at the latest. Returns its id. */
export const startReplay = Effect.fn("startReplay")(function* ({ asked, once, projectId, ...given }: Request) {
  const sql = yield* SqlClient.SqlClient
  const { installationId } = yield* showWebhook(projectId, given.installationId)
  const id = `rpl_${once}`
  const at = new Date(yield* Clock.currentTimeMillis)
  const until = endOf(asked, at).toISOString()
  const started = replay(sql, installationId, id, asked, at)
  yield* actByMutation(
    { projectId, action: "replay.start", id, once, detail: { installationId, ...asked, until } },
    started
  )
  return id
})

export const listReplays = makeList("listReplays", list, ({ id }) => id)

export const showReplay = makeShow("showReplay", "replay", details)

/** Cancels a replay: it makes no more deliveries. Those that it has made are sent. A second cancellation changes nothing. */
export const cancelReplay = Effect.fn("cancelReplay")(function* (projectId: ProjectId, replayId: string) {
  const found = yield* actByStatement({ projectId, kind: "replay", id: replayId }, (sql, actor) =>
    cancel(sql, actor, projectId, replayId)
  )
  if (found.state === "completed")
    return yield* new Refused({ message: `Replay "${replayId}" is completed: there is nothing left to cancel` })
  return { replayId, state: "cancelled", made: found.made }
})

/** Pauses after a run without and with running replays. */
const interval = Duration.seconds(1)
const whenMore = Duration.millis(100)

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const notifier = yield* Notifier
    const { webhooks } = yield* Settings

    /** Takes a step of a replay. A failure is logged, and stops no other replay. */
    const go = Effect.fnUntraced(
      function* (replay: Running) {
        const [done] = yield* once(step(sql, replay, webhooks.endpointConcurrency))
        if ((done?.made ?? 0) > 0) yield* notifier.appended(replay.projectId, [replay.installationId])
      },
      (effect, { id, projectId }) =>
        Effect.catchCauseIf(
          effect,
          (cause) => !Cause.hasInterrupts(cause),
          (cause) => Effect.logWarning(`A step of the replay ${id} of project ${projectId} failed`, cause)
        )
    )

    let isFirst = true
    const run = Effect.gen(function* () {
      if (isFirst) yield* once(endFormer(sql))
      isFirst = false
      const replays = yield* once(listRunning(sql))
      yield* Effect.forEach(replays, go, { discard: true })
      return replays.length > 0
    })
    yield* forkPeriodic("replays", { interval, whenMore }, untraced(run))
  })
)

interface Running {
  readonly projectId: ProjectId
  readonly id: string
  readonly installationId: InstallationId
  readonly until: Date
}

const perRun = 100
/** Maximum number of events that one statement reads. */
const eventsPerStep = 1_000

/**
 * Lists running replays of this version: first one of each project, then a second one of each, and so on. The order is random
 * otherwise, so that the limit does not leave out the same replays each time.
 */
export const listRunning = (sql: SqlClient.SqlClient) => sql<Running>`
  SELECT project_id AS "projectId", id, installation_id AS "installationId", until FROM replays
  WHERE state = 'running' AND pace IS NULL AND ${isAwake(sql, "project_id")}
  ORDER BY row_number() OVER (PARTITION BY project_id ORDER BY random()), random() LIMIT ${perRun}::int`

/**
 * Makes the next deliveries of a replay, the oldest events first, while fewer of its own than twice the concurrency of the
 * endpoint are open. A delivery repeats an earlier one of its event, or is the first: events that occurred while the webhook was
 * disabled have no delivery, and count as dead. An event with an open delivery, or with one that ended after the replay began, is
 * left out, and so is an event without a delivery that is older than `retentionDays`: its delivery may have been pruned. Returns the
 * number of deliveries that were made. A replay whose row another transaction has locked is skipped.
 */
export const step = (sql: SqlClient.SqlClient, { id, projectId, until }: Running, concurrency: number) => sql<{
  readonly made: number
}>`
  WITH replay AS MATERIALIZED (
    SELECT replays.*, enabled, webhooks.event_types AS subscribed, webhooks.created_at AS webhook_since
    FROM replays JOIN webhooks USING (project_id, installation_id)
    WHERE project_id = ${projectId} AND id = ${id} AND state = 'running' AND ${isAwake(sql, "project_id")}
    FOR NO KEY UPDATE OF replays SKIP LOCKED
  ),
  room AS MATERIALIZED (
    SELECT enabled::int * (${2 * concurrency}::int - (
      SELECT count(*)::int FROM (
        SELECT FROM deliveries
        WHERE project_id = ${projectId} AND replay_id = replay.id AND replay_id IS NOT NULL AND finished_at IS NULL
        LIMIT ${2 * concurrency}::int
      ) open
    )) AS room FROM replay
  ),
  scanned AS MATERIALIZED (
    SELECT event.* FROM room, LATERAL (
      SELECT id, type, occurred_at FROM events
      WHERE project_id = ${projectId} AND id > (SELECT position FROM replay) AND id < ${firstIdAt("evt", until.getTime())}
      ORDER BY id LIMIT ${eventsPerStep}::int
    ) event WHERE room > 0
  ),
  picked AS MATERIALIZED (
    SELECT scanned.id, scanned.type, original FROM scanned, replay, LATERAL (
      SELECT min(id) FILTER (WHERE replay_of IS NULL) AS original,
        coalesce(bool_or(status = 'delivered'), false) AS is_delivered,
        coalesce(bool_and(coalesce(finished_at <= replay.created_at, false)), true) AS is_over
      FROM deliveries
      WHERE project_id = ${projectId} AND event_id = scanned.id AND event_id IS NOT NULL
        AND installation_id = replay.installation_id
    ) earlier
    WHERE scanned.type = ANY(replay.event_types) AND scanned.type = ANY(subscribed) AND is_over
      AND (original IS NOT NULL OR occurred_at >= greatest(webhook_since, now() - ${retentionDays}::int * interval '1 day'))
      AND (replay.status = 'all' OR is_delivered = (replay.status = 'delivered'))
    ORDER BY scanned.id LIMIT (SELECT room FROM room)
  ),
  made AS (
    INSERT INTO deliveries (project_id, id, installation_id, event_id, event_type, available_at, created_at, replay_id, replay_of)
    SELECT ${projectId}::text, new_id('dlv', now()), installation_id, picked.id, type, now(), now(), replay.id, original
    FROM picked, replay
    RETURNING 1
  ),
  done AS MATERIALIZED (
    SELECT enabled, new, new = room AS is_full, read = ${eventsPerStep}::int AS is_long,
      -- If the room is used up, the next step starts after the last picked event.
      CASE WHEN new = room THEN (SELECT max(id) FROM picked) ELSE (SELECT max(id) FROM scanned) END AS last
    FROM replay, room, (SELECT count(*)::int AS new FROM made) made, (SELECT count(*)::int AS read FROM scanned) scanned
    WHERE room > 0 OR NOT enabled
  ),
  moved AS (
    UPDATE replays SET made = replays.made + new, position = coalesce(last, position),
      state = CASE WHEN NOT enabled THEN 'cancelled' WHEN is_full OR is_long THEN state ELSE 'completed' END,
      finished_at = CASE WHEN NOT enabled OR NOT (is_full OR is_long) THEN now() END
    FROM done WHERE replays.project_id = ${projectId} AND replays.id = ${id}
  )
  SELECT new AS made FROM done`

/**
 * Ends the replays that the version before has started, which have a pace: their position is that of a delivery, and no step of this
 * version can go on from there. Their counts become those of this version.
 */
const endFormer = (sql: SqlClient.SqlClient) => sql`
  UPDATE replays SET pace = NULL, made = queued, status = CASE cardinality(statuses) WHEN 1 THEN statuses[1] ELSE 'all' END,
    state = CASE WHEN finished_at IS NULL THEN 'cancelled' ELSE state END, finished_at = coalesce(finished_at, now())
  WHERE pace IS NOT NULL`
