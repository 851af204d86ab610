/** Parameters of claims that tests make. */
import type { SqlClient } from "effect/sql"
import { DeliveryId, EventId, InstallationId, ProjectId } from "../../src/api/schema/Ids.ts"
import type { Claim } from "../../src/integrations/deliveries/DeliveryLoop/Claim.ts"
import type { Failing } from "../../src/integrations/deliveries/DeliveryLoop/Record.ts"
import type { Rooms } from "../../src/integrations/deliveries/DeliveryLoop/Slots.ts"
import type { Limits } from "../../src/platform/background/Slots.ts"

/** Returns SQL for a time of the test, in place of the database's clock. */
export const timeOf = (sql: SqlClient.SqlClient, at: Date) => sql`${at}::timestamptz`

/** Returns limits with this number of permits in total, for each channel and for each project. */
export const limitsOf = (free: number): Limits => ({ free, keys: [], tenants: [], newKey: free, newTenant: free })

/** Free slots for the attempts of deliveries, all of which any project may take. */
export const roomsOf = (healthy: number, suspect: number): Rooms => ({
  healthy: { free: healthy, newcomer: healthy, holders: [] },
  suspect: { free: suspect, newcomer: suspect, holders: [] }
})

/** Terms with which no webhook is disabled as failing. */
export const neverFailing: Failing = { forMillis: 1e12, quietMillis: 1e12, attempts: 1 }

/** Returns a claimed delivery of a number, at its first attempt. */
export const claimOf = (due: number): Claim => ({
  projectId: ProjectId.make("prj_1"),
  installationId: InstallationId.make("shop"),
  id: DeliveryId.make(`dlv_${due}`),
  webhookId: DeliveryId.make(`dlv_${due}`),
  attempt: 1,
  leasedUntil: new Date(0),
  retries: 0,
  suspect: false,
  endpointUrl: "http://127.0.0.1:9/",
  urlVersion: 1,
  secrets: "",
  eventId: EventId.make(`evt_${due}`),
  type: "crm.deal.created.v1",
  data: "{}",
  occurredAt: new Date(due),
  traceparent: ""
})
