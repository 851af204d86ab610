/** Limits of calls in flight, as the tables `channel_limit` and `project_share` in the statement of a claim. */
import type { SqlClient, Statement } from "effect/sql"
import type { Limits } from "../../platform/background/Slots.ts"
import type { OpenCircuit } from "./Circuits.ts"

/** Adds the limits of open circuits: a channel with an open circuit has no permit, or one for its probe. */
export const withCircuits = (limits: Limits, openCircuits: ReadonlyArray<OpenCircuit>): Limits => {
  const admits = new Map(openCircuits.map((channel) => [nameOf(channel.projectId, channel.channelId), channel]))
  const keys = limits.keys.map((limit) => {
    const channel = admits.get(nameOf(limit.tenant, limit.key))
    admits.delete(nameOf(limit.tenant, limit.key))
    return channel === undefined ? limit : { ...limit, free: Math.min(limit.free, channel.admits) }
  })
  const others = [...admits.values()].map(({ admits, channelId, projectId }) => ({
    tenant: projectId,
    key: channelId,
    free: admits
  }))
  return { ...limits, keys: [...keys, ...others] }
}

const nameOf = (projectId: string, channelId: string) => JSON.stringify([projectId, channelId])

/** `channel_limit` and `project_share`, as the first common table expressions of a WITH. */
export const limitTables = (sql: SqlClient.SqlClient, { keys, tenants }: Limits): Statement.Fragment => sql`
  channel_limit (project_id, channel_id, free) AS MATERIALIZED (
    SELECT * FROM unnest(${keys.map(({ tenant }) => tenant)}::text[], ${keys.map(({ key }) => key)}::text[],
      ${keys.map(({ free }) => free)}::int[])
  ),
  project_share (project_id, held) AS MATERIALIZED (
    SELECT * FROM unnest(${tenants.map(({ tenant }) => tenant)}::text[], ${tenants.map(({ held }) => held)}::int[])
  )`

/**
 * The order in which projects get permits: the project with the fewest attempts in flight first. So a single project may have
 * all permits. When another project waits, it gets each returned permit until both have equally many. `rank` is the place of
 * a row within its project.
 */
export const shareOf = (sql: SqlClient.SqlClient, rank: string): Statement.Fragment =>
  sql.literal(`${rank} + coalesce(project_share.held, 0)`)
