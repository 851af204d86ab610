/** The project that exists before the measurement. */
import type { PgClient } from "@effect/sql-pg"
import { ProjectId } from "../../../src/api/schema/Ids.ts"

export const projectId = ProjectId.make("bench")

export const clientCount = 10_000

const padded = (i: number) => String(i).padStart(5, "0")

export const clientId = (i: number): string => `cli_seed_${padded(i)}`

/** Returns the members of a client, also for creates. */
export const person = (i: number) => ({
  displayName: `Ada Lovelace ${i}`,
  firstName: "Ada",
  lastName: `Lovelace ${i}`,
  email: `ada.lovelace.${i}@example.com`,
  phone: `+4420718${padded(i)}`,
  tags: ["newsletter", "vip", `cohort-${i % 50}`],
  externalId: `crm-${i}`
})

const minutesLater = (i: number) => new Date(Date.UTC(2026, 0, 1) + i * 60_000).toISOString()

const limit = { limit: 1_000_000_000, windowSeconds: 60 }

export const projectFile = () => ({
  project: {
    id: projectId,
    name: "Bench",
    rateLimits: { read: limit, write: limit },
    defaultPipelineId: "pipe_sales"
  },
  pipelines: [
    {
      id: "pipe_sales",
      name: "Sales",
      stages: ["new", "qualified", "offer", "contract"].map((name) => ({ id: `stage_${name}`, name }))
    }
  ],
  clients: Array.from({ length: clientCount }, (_, i) => ({
    id: clientId(i),
    ...person(i),
    createdAt: minutesLater(i)
  }))
})

/** Number of clients that each connection patches in turn. */
export const clientsPerConnection = 20
export const ownClientId = (batch: string, connection: number, i: number): string => `cli_${batch}_${connection}_${i}`

/** Creates the clients of a batch, at version 1. */
export const makeClients = (sql: PgClient.PgClient, batch: string, connections: number) => {
  const ids = Array.from({ length: connections * clientsPerConnection }, (_, i) =>
    ownClientId(batch, Math.floor(i / clientsPerConnection), i % clientsPerConnection)
  )
  return sql`
    INSERT INTO clients (project_id, id, display_name, first_name, tags, status, version, created_at, updated_at)
    SELECT ${projectId}, id, 'Ada Lovelace', 'Ada', '{vip}', 'active', 1, now(), now() FROM unnest(${ids}::text[]) AS id`
}

/** Number of clients older than those of the project file, for deep pages of the list. */
export const oldCount = 100_000
const oldClientId = (i: number): string => `cli_old_${String(i).padStart(6, "0")}`
const oldTime = (i: number) => new Date(Date.UTC(2025, 0, 1) + i * 1_000)

export const makeOldClients = (sql: PgClient.PgClient) => sql`
  INSERT INTO clients (project_id, id, display_name, first_name, last_name, email, phone, tags, external_id, status,
    version, created_at, updated_at)
  SELECT ${projectId}, 'cli_old_' || lpad(i::text, 6, '0'), 'Ada Lovelace ' || i, 'Ada', 'Lovelace ' || i,
    'ada.' || i || '@example.com', '+4420718' || lpad(i::text, 6, '0'), '{newsletter,vip,cohort}', 'old-' || i, 'active', 1,
    ${oldTime(0)}::timestamptz + i * interval '1 second', ${oldTime(0)}::timestamptz
  FROM generate_series(0, ${oldCount - 1}::int) AS i`

/** Returns the place in the list after which `left` records follow. */
export const deepPlace = (left: number) => ({ createdAt: oldTime(left), id: oldClientId(left) })
