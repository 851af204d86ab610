/** The projects that exist before the measurement. */
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

/** Returns a project file with some records. */
export const projectFile = <A extends object>(id: ProjectId, records: A) => ({
  project: { id, name: id, rateLimits: { read: limit, write: limit }, defaultPipelineId: "pipe_sales" },
  pipelines: [{ id: "pipe_sales", name: "Sales", stages: [{ id: "stage_new", name: "New" }] }],
  ...records
})

export const clients = () =>
  Array.from({ length: clientCount }, (_, i) => ({ id: clientId(i), ...person(i), createdAt: minutesLater(i) }))
