/** The columns of deals, grouped by what can set them, and SQL for deals in events. */
import { Struct } from "effect"
import { Deal, dealFields } from "../api/crm/Deals.ts"
import { alteredObject, columnsOf, jsonObject } from "../sql/Columns.ts"

export const columns = columnsOf(Deal.fields, { amountMinor: "bigint", expectedCloseDate: "date", version: "integer" })

export const writable = Struct.pick(columns, Struct.keys(dealFields))

/** The columns that a patch can alter, without `version` and `updatedAt`, which every change alters. */
const alterable = { ...writable, closedAt: columns.closedAt }

export const fileColumns = { ...writable, ...Struct.pick(columns, ["closedAt", "createdAt"]) }

/**
 * Returns SQL for the member `deal` of an event's data, as arguments of json_build_object. `row` is the name of a CTE with the
 * rows of deals.
 */
export const eventDeal = (row: string) => `'deal', ${jsonObject(columns, row)}`

/**
 * Returns SQL for the member `previous` of an event's data: the members that a change has altered, with their values before the
 * change.
 */
export const eventPrevious = (before: string, after: string) => `'previous', ${alteredObject(alterable, before, after)}`
