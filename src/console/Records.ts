/** The pages of records, by their kind. */
import type { Found, Kind } from "../project/IdSearch.ts"
import { href, html, idOf } from "./Html.ts"

type Record = Pick<Found, "id" | "projectId">

const pages: Readonly<Partial<{ readonly [K in Kind]: (record: Record) => string }>> = {
  project: ({ id }) => href("/console/project", { project: id }),
  delivery: ({ id, projectId: project }) => href("/console/delivery", { project, id }),
  message: ({ id, projectId: project }) => href("/console/message", { project, id }),
  campaign: ({ id, projectId: project }) => href("/console/campaign", { project, id }),
  installation: ({ id, projectId: project }) => href("/console/webhook", { project, installation: id }),
  replay: ({ projectId: project }) => href("/console/replays", { project }),
  key: ({ projectId: project }) => href("/console/keys", { project })
}

/** Returns the page that shows a record: that of its kind, otherwise its history. */
export const recordPage = (kind: Kind, record: Record) => pages[kind]?.(record) ?? historyPage(kind, record)

const historyPage = (kind: Kind, { id, projectId: project }: Record) => href("/console/history", { project, kind, id })

/** The id of a record as a link to its page. */
export const recordLink = (kind: Kind, projectId: string, id: string | null) =>
  id === null ? null : html`<a href="${recordPage(kind, { projectId, id })}">${idOf(id)}</a>`

export const historyLink = (kind: Kind, record: Record) =>
  html`<a href="${historyPage(kind, record)}">Commands and actions</a>`
