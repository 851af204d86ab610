/**
 * Parts of the claim's statement. They choose the endpoints that the claim visits, and share the slots among these endpoints.
 *
 * Slots are for attempts in flight in one process. There are two classes of slots: one for attempts to healthy endpoints, one for attempts to
 * suspect endpoints (with recent failures). A project may take a slot of a class while it holds fewer than `factor` times the number of
 * free slots. So a single project holds at most three quarters of a class, and another project finds free slots at once, even if the
 * attempts in flight take long. If several projects want more slots than there are, each soon holds the same number, and some slots
 * stay free. A slot is cheap: an attempt that waits for its answer costs a connection and a timer.
 */
import { isAwake } from "../../../platform/MoveState.ts"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import type { ProjectId } from "../../../api/schema/Ids.ts"
import type { Endpoint } from "../../Endpoint.ts"
import { validSecrets } from "../../WebhookSecrets.ts"

export interface ClaimTerms {
  readonly workerId: bigint
  readonly concurrency: number
  /** Slots that may be taken, for healthy and for suspect endpoints. */
  readonly rooms: Rooms
  /** Whether to visit the endpoints whose `claim_at` has passed. */
  readonly isPoll: boolean
  /** Endpoints to visit even if the `claim_at` of their row has not passed. */
  readonly named: ReadonlyArray<Named>
}

/** An endpoint to visit. `width` is its maximum number of leases: its concurrency, or more if deliveries are claimed ahead. */
export interface Named extends Endpoint {
  readonly width: number
}

/** Maximum number of projects that take turns in one claim. */
const projectsPerClaim = 10_000
/** Maximum number of endpoints of one project in the turns of one claim. */
const endpointsPerTurn = 16

/** The endpoints of `named`. Unless `isAmple`, also the projects that hold slots (`holder`), with the number that each may still take. */
export const givenEndpoints = (sql: Sql, terms: ClaimTerms) => {
  const { named, rooms } = terms
  const holders = slotClasses.flatMap((slotClass) =>
    rooms[slotClass].holders.map((holder) => ({ ...holder, isSuspect: slotClass === "suspect" }))
  )
  const given = sql`
  named AS MATERIALIZED (
    SELECT * FROM unnest(
      ${named.map(({ projectId }) => projectId)}::text[], ${named.map(({ installationId }) => installationId)}::text[],
      ${named.map(({ width }) => width)}::int[]
    ) AS named (project_id, installation_id, width)
  )`
  if (isAmple(terms)) return given
  return sql`${given},
  holder AS MATERIALIZED (
    SELECT * FROM unnest(
      ${holders.map(({ projectId }) => projectId)}::text[], ${holders.map(({ isSuspect }) => isSuspect)}::bool[],
      ${holders.map(({ room }) => room)}::int[]
    ) AS holder (project_id, suspect, room)
  )`
}

/** Whether every endpoint that the claim visits gets all slots that it lacks, so that there is nothing to share. */
const isAmple = ({ concurrency, isPoll, named, rooms }: ClaimTerms) =>
  !isPoll &&
  slotClasses.every((slotClass) => {
    const { holders, newcomer } = rooms[slotClass]
    return holders.every(({ room }) => named.length * concurrency <= room) && named.length * concurrency <= newcomer
  })

/**
 * The due endpoints of a class of slots. `first_…` has the endpoints that have been due longest, at most one for each free slot. If it has
 * the maximum, more endpoints may be due. In this case the projects in `turn_…` also take turns: the first endpoint of each
 * project comes before the second endpoint of any project. So a project with many due endpoints does not hide another project.
 * Projects that may take no slot are left out.
 */
export const due = (sql: Sql, slotClass: SlotClass, { rooms, workerId }: ClaimTerms) => {
  const isSuspect = slotClass === "suspect"
  const free = sql`${rooms[slotClass].free}::int`
  const inClass = sql.literal(isSuspect ? "suspect" : "NOT suspect")
  const able = sql`${inClass} AND coalesce(worker_id = ${workerId}::bigint, true) AND ${isAwake(sql, "project_id")}`
  const hasRoom = sql`NOT EXISTS (
      SELECT FROM holder
      WHERE holder.project_id = due.project_id AND holder.suspect = ${sql.literal(String(isSuspect))} AND room = 0
    )`
  const [first, turn] = [sql.literal(`first_${slotClass}`), sql.literal(`turn_${slotClass}`)]
  return sql`
  ${first} AS MATERIALIZED (
    SELECT project_id, installation_id FROM endpoint_health WHERE claim_at <= now() AND ${able}
    ORDER BY claim_at LIMIT ${free}
  ),
  ${turn} AS (
    (
      SELECT project_id, 1 AS place FROM endpoint_health
      WHERE ${free} > 0 AND (SELECT count(*) FROM ${first}) = ${free} AND claim_at IS NOT NULL AND ${inClass}
      ORDER BY project_id, claim_at LIMIT 1
    )
    UNION ALL
    SELECT next.project_id, place + 1 FROM ${turn} last, LATERAL (
      SELECT project_id FROM endpoint_health
      WHERE project_id > last.project_id AND claim_at IS NOT NULL AND ${inClass}
      ORDER BY project_id, claim_at LIMIT 1
    ) next
    WHERE place < ${projectsPerClaim}::int
  ),
  ${sql.literal(`due_${slotClass}`)} AS (
    SELECT * FROM ${first} due WHERE ${hasRoom}
    UNION ALL (
      SELECT due.project_id, due.installation_id FROM ${turn} last, LATERAL (
        SELECT project_id, installation_id, claim_at, row_number() OVER (ORDER BY claim_at) AS turn FROM endpoint_health
        WHERE project_id = last.project_id AND claim_at <= now() AND ${able}
        ORDER BY claim_at LIMIT ${endpointsPerTurn}::int
      ) due
      WHERE ${hasRoom} ORDER BY turn, claim_at LIMIT ${free}
    )
  )`
}

/**
 * Locks the endpoints to visit. A row that another statement has locked is skipped; if it is in `named`, `lockedEndpoints`
 * returns it.
 *
 * `lacking` is the number of deliveries that may be sent to an endpoint besides the deliveries in flight. `ahead` includes
 * `lacking`, and also counts the deliveries that may be leased ahead. Both are 0 while nothing may be sent to the endpoint. They
 * are computed outside of the subqueries, from the locked row: if the row has changed since the statement began, PostgreSQL does
 * not evaluate the subqueries again.
 */
export const endpoints = (sql: Sql, terms: ClaimTerms) => {
  const { concurrency, isPoll, workerId } = terms
  const candidates = isPoll
    ? sql`(
      SELECT project_id, installation_id, max(width) AS width FROM (
        SELECT * FROM named
        UNION ALL SELECT *, ${concurrency}::int FROM due_healthy UNION ALL SELECT *, 1 FROM due_suspect
      ) AS found GROUP BY project_id, installation_id
    )`
    : sql`named`
  const isOpen = sql`(enabled AND coalesce(greatest(parked_until, resting_until) <= now(), true))`
  return sql`
  SELECT *${sql.literal(isAmple(terms) ? "" : ", row_number() OVER () AS number")} FROM (
    SELECT health.project_id, health.installation_id, suspect, claim_at, in_flight, open_from, webhook.*,
      ${isOpen}::int * greatest(0, CASE WHEN suspect THEN 1 ELSE ${concurrency}::int END - in_flight) AS lacking,
      ${isOpen}::int * greatest(0, CASE WHEN suspect THEN 1 ELSE width END - in_flight) AS ahead
    FROM ${candidates} candidate JOIN endpoint_health health USING (project_id, installation_id), LATERAL (
      SELECT enabled, endpoint_url, version, ${sql.literal(validSecrets)} AS secrets FROM webhooks
      WHERE project_id = health.project_id AND installation_id = health.installation_id LIMIT 1
    ) webhook
    WHERE coalesce(worker_id = ${workerId}::bigint, true) AND ${isAwake(sql, "health.project_id")}
    FOR NO KEY UPDATE OF health SKIP LOCKED
  ) able`
}

/**
 * Shares the slots:
 *
 * - `wish` has a row for each delivery that may still be sent to an endpoint (`lacking`), and one for each `holder`.
 * - `turn` lets the endpoints of a project take turns until the project has no room. Endpoints with the fewest deliveries in
 *   flight come first.
 * - `share` lets projects take turns (`place`) until no slot is free. It is one array, with the slots of each `number`.
 * - `visit` adds the deliveries to lease ahead, if every endpoint of the project gets all slots that it lacks.
 *
 * If there are slots enough (`isAmple`), `visit` alone has the same rows: the other parts cost a sixth of a claim of one delivery.
 */
export const visits = (sql: Sql, terms: ClaimTerms) => {
  if (isAmple(terms)) return sql`visit AS MATERIALIZED (SELECT *, ahead AS quota FROM endpoint)`
  const { healthy, suspect } = terms.rooms
  return sql`
  wish AS (
    SELECT suspect, project_id, number, in_flight + wished AS nth, claim_at, NULL::int AS room
    FROM endpoint LEFT JOIN LATERAL generate_series(1, lacking) AS wished ON true
    UNION ALL SELECT suspect, project_id, NULL, NULL, NULL, room FROM holder
  ),
  turn AS (
    SELECT *, nth IS NOT NULL AND turn <= coalesce(
        room_left, CASE WHEN suspect THEN ${suspect.newcomer}::int ELSE ${healthy.newcomer}::int END
      ) AS has_room
    FROM (
      SELECT *, row_number() OVER (project ORDER BY nth, claim_at) AS turn, max(room) OVER project AS room_left FROM wish
      WINDOW project AS (PARTITION BY suspect, project_id)
    ) wish
  ),
  share AS MATERIALIZED (
    SELECT array_agg(slots ORDER BY number) AS slots FROM (
      SELECT number, count(*) FILTER (
          WHERE has_room AND place <= CASE WHEN suspect THEN ${suspect.free}::int ELSE ${healthy.free}::int END
        )::int AS slots
      FROM (SELECT *, row_number() OVER (PARTITION BY suspect, has_room ORDER BY turn, claim_at) AS place FROM turn) turn
      WHERE number IS NOT NULL GROUP BY number
    ) share
  ),
  visit AS MATERIALIZED (
    SELECT *, CASE
        WHEN bool_and(slots = lacking) OVER (PARTITION BY suspect, project_id) THEN ahead ELSE slots
      END AS quota
    FROM (SELECT *, ((SELECT slots FROM share))[number] AS slots FROM endpoint) endpoint
  )`
}

/**
 * Updates the rows of visited endpoints. If an endpoint still has due deliveries, its next due time is `now()`. So endpoints
 * that have been due for longer come first in the next claim.
 */
export const settle = (sql: Sql, { concurrency, workerId }: ClaimTerms) => sql`
  UPDATE endpoint_health health SET
    in_flight = health.in_flight + leases,
    worker_id = CASE WHEN health.in_flight + leases > 0 THEN ${workerId}::bigint END,
    next_due_at = CASE WHEN enabled AND next_at IS NOT NULL THEN greatest(next_at, now()) END,
    discarding = health.discarding OR (NOT enabled AND next_at IS NOT NULL),
    saturated = health.in_flight + leases >= CASE WHEN health.suspect THEN 1 ELSE ${concurrency}::int END
  FROM (
    SELECT project_id, installation_id, bool_and(enabled) AS enabled, sum(lease)::int AS leases, min(next_at) AS next_at
    FROM (
      SELECT project_id, installation_id, enabled, 0 AS lease, NULL::timestamptz AS next_at FROM endpoint
      UNION ALL SELECT project_id, installation_id, true, count(*), NULL FROM leased GROUP BY project_id, installation_id
      UNION ALL SELECT project_id, installation_id, true, 0, available_at FROM pending WHERE NOT chosen
    ) change GROUP BY project_id, installation_id
  ) change
  WHERE health.project_id = change.project_id AND health.installation_id = change.installation_id`

/** The endpoints of `named` that were not visited because another statement had locked their rows. */
export const lockedEndpoints = (sql: Sql, { workerId }: ClaimTerms) => sql`
  SELECT project_id, installation_id FROM (
    SELECT project_id, installation_id FROM named EXCEPT SELECT project_id, installation_id FROM endpoint
  ) missing JOIN endpoint_health USING (project_id, installation_id)
  WHERE coalesce(worker_id = ${workerId}::bigint, true) AND ${isAwake(sql, "project_id")}`

const slotClasses = ["healthy", "suspect"] as const
type SlotClass = (typeof slotClasses)[number]

export const slotsByClass: Readonly<Record<SlotClass, number>> = { healthy: 2_048, suspect: 768 }

const factor = 3

export interface Room {
  readonly free: number
  /** Number of slots that a project without slots may take. */
  readonly newcomer: number
  /** Number of slots that each project with slots may still take. */
  readonly holders: ReadonlyArray<{ readonly projectId: ProjectId; readonly room: number }>
}

export type Rooms = Readonly<Record<SlotClass, Room>>

interface Holder {
  readonly projectId: ProjectId
  readonly suspect: boolean
}

export const makeSlots = () => {
  const held: Readonly<Record<SlotClass, Map<ProjectId, number>>> = { healthy: new Map(), suspect: new Map() }
  const free = { ...slotsByClass }

  const change = ({ projectId, suspect }: Holder, by: 1 | -1) => {
    const slotClass = suspect ? "suspect" : "healthy"
    const count = (held[slotClass].get(projectId) ?? 0) + by
    free[slotClass] -= by
    if (count === 0) held[slotClass].delete(projectId)
    else held[slotClass].set(projectId, count)
  }

  const roomOf = (slotClass: SlotClass): Room => {
    /**
     * Returns how many more slots a project with `count` slots may take. The rule of `factor` is applied again after each slot.
     */
    const room = (count: number) =>
      Math.max(0, Math.min(free[slotClass], Math.ceil((factor * free[slotClass] - count) / (factor + 1))))
    return {
      free: Math.max(0, free[slotClass]),
      newcomer: room(0),
      holders: Array.from(held[slotClass], ([projectId, count]) => ({ projectId, room: room(count) }))
    }
  }

  return {
    take: (holder: Holder) => change(holder, 1),
    release: (holder: Holder) => change(holder, -1),
    rooms: (): Rooms => ({ healthy: roomOf("healthy"), suspect: roomOf("suspect") })
  }
}
