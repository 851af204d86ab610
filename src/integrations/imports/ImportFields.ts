/** The fields that an import profile can map external fields to, by entity type (contract §12). */
import type { Schema } from "effect"
import { clientFields } from "../../api/crm/Clients.ts"
import { dealFields } from "../../api/crm/Deals.ts"
import { noteFields } from "../../api/crm/Notes.ts"
import { taskFields } from "../../api/integrations/Events.ts"
import { Instant, text } from "../../api/schema/Fields.ts"
import type { EntityType } from "../../api/integrations/Preview.ts"

const { amountMinor, currency, expectedCloseDate, title } = dealFields
const { displayName, email, firstName, lastName, phone, tags } = clientFields
const sale = { title, amountMinor, currency, expectedCloseDate }

/** Fields that are also in the API use its schemas, so that both accept the same values. */
export const importFields = {
  contact: { displayName, firstName, lastName, email, phone, tags },
  organization: { name: text(1, 160) },
  lead: sale,
  deal: sale,
  task: taskFields,
  activity: { title: text(1, 160), at: Instant },
  note: noteFields
} as const satisfies Record<EntityType, Readonly<Record<string, Schema.Codec<unknown, unknown>>>>
