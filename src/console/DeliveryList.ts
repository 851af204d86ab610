/** Lists of deliveries on pages. A page of a filtered list may end before it is full, with a link to the rest of the search. */
import type { ProjectId } from "../api/Ids.ts"
import type { Delivery, Filter } from "../integrations/DeliveryList.ts"
import { type Found, scanLimit } from "../platform/Search.ts"
import { badge, type Html, html, link, nextPage, table, time } from "./Html.ts"
import { pageSize } from "./Page.ts"

/** The query of the page of a filter, from a delivery on. */
const queryOf = (project: ProjectId, { installationId, since, status, type, until }: Filter, cursor: string) => ({
  project,
  installation: installationId,
  status,
  type,
  since: since?.toISOString(),
  until: until?.toISOString(),
  cursor
})

const head = ["Delivery", "Created", "Installation", "Event", "State", "Attempts", "Last answer"]

/** Renders deliveries, and the link to the next page. */
export const render = (
  projectId: ProjectId,
  filter: Filter,
  { items, next }: Found<Delivery>,
  limit = pageSize
): Html => {
  const cells = items.map((row) => [
    link("/console/delivery", { project: projectId, id: row.id }, row.id),
    time(row.createdAt),
    link("/console/webhook", { project: projectId, installation: row.installationId }, row.installationId),
    row.eventType,
    html`${badge(row.status)}${row.replayOf === null ? "" : " (replay)"}`,
    row.attempts,
    row.lastErrorCode ?? row.lastStatusCode
  ])
  const isFull = items.length === limit
  const query = next === null ? undefined : queryOf(projectId, filter, next)
  return html`${table("Deliveries, newest first", head, cells, "No deliveries.")}
  ${!isFull && next !== null ? html`<p class="empty">This page searched ${scanLimit} deliveries.</p>` : ""}
  ${nextPage("/console/deliveries", query, isFull ? "Older" : "Continue the search")}`
}
