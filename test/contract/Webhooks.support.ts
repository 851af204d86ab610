/** A project with installations, and the operations on the webhook of one of them. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { State } from "../../src/webhooks/delivery/States.ts"
import { problemOf, secretOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { enable } from "../support/Events.ts"
import type { EventType } from "../../src/api/integrations/Events.ts"
import { put as insertRows } from "../support/Rows.ts"
import { type Seeded, TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"

export const created = "crm.deal.created.v1"
export const updated = "crm.deal.updated.v1"
export const stageChanged = "crm.deal.stage_changed.v1"

/** The configuration of a new webhook unless a test sets another. */
const usual = {
  endpointUrl: "https://shop.example.com/hooks",
  eventTypes: [created, updated],
  expectedVersion: null
} as const

/** The health of an endpoint that is parked until long after the test. */
export const parked = "failures = 12, failed_probes = 2, parked_until = now() + interval '1 hour'"

interface WebhookRow {
  readonly endpointUrl: string
  readonly eventTypes: ReadonlyArray<string>
  readonly enabled: boolean
  readonly version: number
}

interface Secret {
  readonly sealed: Uint8Array
  /** Null if no retirement is set. */
  readonly retiresAt: Date | null
}

interface Health {
  readonly inFlight: number
  readonly failures: number
  readonly failedProbes: number
  readonly parkedUntil: Date | null
}

interface Logged {
  readonly number: number
  readonly startedAt: string
  readonly finishedAt: string
  readonly statusCode: number | null
  readonly errorCode: string | null
  readonly durationMs: number | null
  readonly responseBody?: string
}

export interface DeliveryRow {
  readonly id: string
  readonly installation: string
  readonly type: string
  readonly status: State
  readonly attempts: number
  readonly retries: number
  readonly availableAt: Date | null
  readonly finishedAt: Date | null
  readonly log: ReadonlyArray<Logged>
}

/** A server without the fibers that send deliveries, so that operations alone change webhooks and deliveries. */
export const api = TestServer.layer({}, "api")

/** Returns calls on an installation's webhook with a token of its project, and reads of its state in the database. */
export const callsOf = (server: TestServer["Service"], seeded: Seeded, installationId: string) => {
  const { projectId, token } = seeded
  const { send, sql } = server
  const path = `/api/v1/developer/integrations/${encodeURIComponent(installationId)}/outbound-webhook`
  const put = (json: unknown, key = newKey()) => send({ method: "PUT", path, token, key, json })
  const configure = (change: object = {}, key = newKey()) => put({ ...usual, ...change }, key)
  const rotate = (expectedVersion: unknown, key = newKey()) =>
    send({ method: "POST", path: `${path}/rotate-secret`, token, key, json: { expectedVersion } })
  const read = sql<WebhookRow>`
    SELECT endpoint_url AS "endpointUrl", event_types AS "eventTypes", enabled, version
    FROM webhooks WHERE project_id = ${projectId} AND installation_id = ${installationId}`.pipe(
    Effect.map(([row]) => row),
    Effect.orDie
  )
  const deliveries = (installation?: string) =>
    Effect.orDie(sql<DeliveryRow>`
      SELECT deliveries.id, installation_id AS installation, type, status, attempts, retries,
        available_at AS "availableAt", finished_at AS "finishedAt", attempt_log AS log
      FROM deliveries JOIN events ON events.project_id = deliveries.project_id AND events.id = event_id
      WHERE deliveries.project_id = ${projectId}
        AND installation_id = coalesce(${installation ?? null}::text, installation_id)
      ORDER BY created_at, deliveries.id`)
  return {
    server,
    projectId,
    token,
    put,
    configure,
    rotate,
    retry: (deliveryId: string, key = newKey()) =>
      send({ method: "POST", path: `${path}/deliveries/${encodeURIComponent(deliveryId)}/retry`, token, key }),
    /** Configures the webhook with success, and returns the receipt with the secret. */
    configured: (change?: object, key?: string) => Effect.map(configure(change, key), secretOf),
    /** Rotates the secret with success, and returns the new one. */
    rotated: (version: number) => Effect.map(rotate(version), (answer) => secretOf(answer).signingSecret),
    /** Reads the webhook; undefined if there is none. */
    read,
    /** Reads the webhook; fails if there is none. */
    found: Effect.map(read, (row) => row ?? assert.fail("There is no webhook")),
    /** Reads the secrets that are kept, the newest first. */
    secrets: sql<Secret>`
      SELECT sealed, nullif(retires_at, 'infinity') AS "retiresAt"
      FROM webhook_secrets WHERE project_id = ${projectId} AND installation_id = ${installationId}
      ORDER BY version DESC`.pipe(Effect.orDie),
    disable: enable(sql, projectId, installationId, false),
    /** Sets columns of the health of the project's endpoints. */
    setHealth: (assignments: string) =>
      Effect.orDie(sql`UPDATE endpoint_health SET ${sql.literal(assignments)} WHERE project_id = ${projectId}`),
    health: sql<Health>`
      SELECT in_flight AS "inFlight", failures, failed_probes AS "failedProbes", parked_until AS "parkedUntil"
      FROM endpoint_health WHERE project_id = ${projectId} AND installation_id = ${installationId}`.pipe(
      Effect.map(([row]) => row ?? assert.fail("The endpoint has no health")),
      Effect.orDie
    ),
    /** Inserts a delivery: by default a dead one that has used up its retry schedule. */
    deliver: (id: string, status = "dead", type: EventType = created) =>
      Effect.gen(function* () {
        const isOpen = status === "pending" || status === "delivering"
        const soon = new Date(Date.now() + 3_600_000)
        yield* insertRows(sql, "events", { project_id: projectId, id: `evt ${id}`, type })
        yield* insertRows(sql, "deliveries", {
          project_id: projectId,
          id,
          installation_id: installationId,
          event_id: `evt ${id}`,
          status,
          attempts: 11,
          retries: 10,
          available_at: isOpen ? soon : null,
          leased_until: status === "delivering" ? soon : null,
          created_at: "yesterday",
          finished_at: isOpen ? null : "now"
        })
      }),
    /** Returns the project's deliveries, the oldest first. */
    deliveries,
    delivery: (id: string) =>
      Effect.map(
        deliveries(),
        (rows) => rows.find((row) => row.id === id) ?? assert.fail(`There is no delivery ${id}`)
      ),
    /** Returns the calls on another installation's webhook, or through another server. */
    but: (change: { readonly installationId?: string; readonly server?: TestServer["Service"] }) =>
      callsOf(change.server ?? server, seeded, change.installationId ?? installationId)
  }
}

/** Creates a project with installations; returns the calls on the webhook of the first. */
export const open = Effect.fnUntraced(function* (installationId = "ins", ...others: ReadonlyArray<string>) {
  const server = yield* TestServer
  const installations = [installationId, ...others].map((id) => ({ id, name: "Shop" }))
  return callsOf(server, yield* server.seed({ installations }), installationId)
})

export const assertConflict = (answer: Answer, currentVersion: number | null) =>
  assert.strictEqual(problemOf(answer, 409, "version_conflict").currentVersion, currentVersion)
