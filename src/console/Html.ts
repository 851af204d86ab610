/** Templates of HTML, in which every interpolated text is escaped except the results of templates, and the elements of pages. */
import { Record } from "effect"
import type { FailingEndpoint } from "../webhooks/WebhookList.ts"
import type { ActionName } from "../operators/Actions.ts"
import { duration } from "../platform/Text.ts"

/** HTML that a template has made. */
export class Html {
  readonly #text: string
  constructor(strings: TemplateStringsArray, values: ReadonlyArray<Fragment>) {
    this.#text = String.raw({ raw: strings }, ...values.map(textOf))
  }
  toString(): string {
    return this.#text
  }
}

/** What a template takes. Null, undefined and false leave their place empty. */
export type Fragment = Html | string | number | null | undefined | false | ReadonlyArray<Fragment>

export const html = (strings: TemplateStringsArray, ...values: ReadonlyArray<Fragment>): Html =>
  new Html(strings, values)

const textOf = (content: Fragment): string => {
  if (content === null || content === undefined || content === false) return ""
  if (typeof content === "string") return content.replace(/[&<>"']/g, (character) => entities[character] ?? "")
  return typeof content === "number" || content instanceof Html ? String(content) : content.map(textOf).join("")
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;"
}

/** The content of a table cell; null is shown as a dash. */
export type Cell = Html | string | number | null

export const href = (path: string, query: Readonly<Record<string, string | null | undefined>> = {}): string => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value) search.append(name, value)
  return search.size === 0 ? path : `${path}?${search}`
}

export const link = (path: string, query: Parameters<typeof href>[1], text: Cell): Html =>
  html`<a href="${href(path, query)}">${text}</a>`

/**
 * The columns of a table, by name. Each makes a cell from a row. A column under `number` is aligned like numbers, though its
 * cells are links or values with a unit.
 */
export type TableColumns<Row> = Readonly<Record<string, ((row: Row) => Cell) | { readonly number: (row: Row) => Cell }>>

/**
 * A table with a caption; without rows, the text `empty`. On narrow screens the style sheet shows each row as a card, with `data-name`
 * as the label of a cell. Because of the `role` attributes, screen readers still announce a table.
 */
export const table = <Row>(caption: string, columns: TableColumns<Row>, rows: ReadonlyArray<Row>, empty = ""): Html => {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`
  const cells = Object.entries(columns).map(([name, of]) => {
    const isNumber = typeof of !== "function"
    const values = rows.map(isNumber ? of.number : of)
    return { name, values, tone: isNumber || values.some((value) => typeof value === "number") ? "number" : "" }
  })
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}">
    <table role="table">
      <caption>
        ${caption}
      </caption>
      <thead role="rowgroup">
        <tr role="row">
          ${cells.map(({ name, tone }) => html`<th role="columnheader" scope="col" class="${tone}">${name}</th>`)}
        </tr>
      </thead>
      <tbody role="rowgroup">
        ${rows.map((_, row) => {
          const own = cells.map(
            ({ name, tone, values }) =>
              html`<td role="cell" class="${tone}" data-name="${name}">${values[row] ?? "–"}</td>`
          )
          return html`<tr role="row">
            ${own}
          </tr>`
        })}
      </tbody>
    </table>
  </div>`
}

/** A list of names and values. Names with an undefined value are left out. */
export const facts = (rows: Readonly<Record<string, Cell | undefined>>): Html =>
  html`<dl>
    ${Object.entries(rows).map(([name, value]) =>
      value === undefined
        ? ""
        : html`<div class="${typeof value === "string" && value.length > 24 ? "wide" : ""}">
            <dt>${name}</dt>
            <dd>${value ?? "–"}</dd>
          </div>`
    )}
  </dl>`

export const block = (caption: string, text: string): Html =>
  html`<figure>
    <figcaption>${caption}</figcaption>
    <pre tabindex="0" aria-label="${caption}">${text}</pre>
  </figure>`

export const progress = (done: number, all: number, name: string): Html =>
  html`<progress max="${Math.max(1, all)}" value="${done}" aria-label="${name}"></progress>
    <span>${done} of ${all}</span>`

export const badge = (state: string): Html => html`<span class="badge ${toneOf(state)}">${state}</span>`

const tones = {
  good: "delivered, sent, accepted, completed, enabled, healthy, active",
  busy: "running, pending, ending, delivering, retrying, paused, scheduled, resting, unproven, completed with failures",
  bad: "dead, failed, rejected, unknown, disabled, parked, failing, behind, hangs, revoked, expired"
}
const toneOf = (state: string) => Record.keys(tones).find((tone) => tones[tone].split(", ").includes(state)) ?? ""

/** Formats a count that stops at `max`: `10000 or more`. */
export const countOf = (count: number, max: number): string => (count >= max ? `${max} or more` : String(count))

/** An id. The style sheet hides the middle of a long id. The title and copied text have the whole id. */
export const idOf = (id: string | null): Cell => {
  if (id === null) return null
  const shown = id.length <= 20 ? id : html`${id.slice(0, 10)}<span>${id.slice(10, -6)}</span>${id.slice(-6)}`
  return html`<code title="${id}">${shown}</code>`
}

/** Returns a function that shows a time relative to `now` (milliseconds), with the exact time in UTC beside it. */
export const timeSince =
  (now: number) =>
  (at: string | Date | null): Cell => {
    if (at === null) return null
    const exact = new Date(at).toISOString()
    const seconds = (now - Date.parse(exact)) / 1_000
    const relative =
      Math.abs(seconds) < 1 ? "now" : seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`
    return html`<time datetime="${exact}">${relative} <small>${exact.replace("T", " ").replace("Z", "")}</small></time>`
  }
export type Time = ReturnType<typeof timeSince>

export const failureOf = ({ lastFailure }: Pick<FailingEndpoint, "lastFailure">): Cell =>
  lastFailure === null ? null : (lastFailure.errorCode ?? `status ${lastFailure.statusCode}`)

type Hidden = Readonly<Record<string, string>>

export const actionForm = (name: ActionName, hidden: Hidden, label: string, fields: ReadonlyArray<Html> = []): Html =>
  html`<form method="post" action="${actionPath(name)}" class="action">
    ${hiddenFields(hidden)} ${fields}
    <button>${label}</button>
  </form>`

export const actionPath = (name: string): `/${string}` => `/console/${name}`

export const hiddenFields = (fields: Hidden) =>
  Object.entries(fields).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)

export const select = (
  label: string,
  name: string,
  options: ReadonlyArray<string>,
  chosen: string | null,
  any = "any"
): Html =>
  html`<label
    >${label}
    <select name="${name}">
      ${any === "" ? "" : html`<option value="">${any}</option>`}
      ${options.map(
        (value) => html`<option value="${value}" ${value === chosen ? html`selected` : ""}>${value}</option>`
      )}
    </select></label
  >`

/** A field for a time. Browsers show and send it without an offset. */
export const timeInput = (label: string, name: string, at?: Date | null): Html =>
  html`<label
    >${label} (UTC)
    <input type="datetime-local" step="1" name="${name}" value="${at?.toISOString().slice(0, 19) ?? ""}"
  /></label>`

/** Adds what a browser leaves out of the time of a `timeInput`: seconds that are 0, and the offset. Returns other texts unchanged. */
export const instantOf = (text: string): string =>
  text.replace(/^(\d{4}-\d\d-\d\dT\d\d:\d\d)(:\d\d)?$/, (_, minute: string, seconds = ":00") => `${minute}${seconds}Z`)

export const input = (label: string, name: string, value: string | null, placeholder = ""): Html =>
  html`<label>${label} <input name="${name}" value="${value ?? ""}" placeholder="${placeholder}" /></label>`
