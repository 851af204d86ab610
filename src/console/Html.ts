/** The elements of pages. `html` escapes every interpolated value that is not itself a result of `html`. */
import { html } from "hono/html"

export { html }

/** A fragment of HTML. */
export type Html = ReturnType<typeof html>

/** The content of a table cell; null is shown as a dash. */
export type Cell = Html | string | number | null

/** The URL of a page; parameters without a value are omitted. */
export const href = (path: string, query: Readonly<Record<string, string | null | undefined>> = {}): string => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") search.append(name, value)
  }
  return search.size === 0 ? path : `${path}?${search}`
}

export const link = (path: string, query: Parameters<typeof href>[1], text: Cell): Html =>
  html`<a href="${href(path, query)}">${text}</a>`

/**
 * A table with a caption, which screen readers announce; without rows, the text `empty` instead. On narrow screens the style sheet
 * shows each row as a card: the roles keep it a table, and each cell has the name of its column.
 */
export const table = (
  caption: string,
  head: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<Cell>>,
  empty: string
): Html =>
  rows.length === 0
    ? html`<p class="empty">${empty}</p>`
    : html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}">
        <table role="table">
          <caption>
            ${caption}
          </caption>
          <thead role="rowgroup">
            <tr role="row">
              ${head.map((name) => html`<th role="columnheader" scope="col">${name}</th>`)}
            </tr>
          </thead>
          <tbody role="rowgroup">
            ${rows.map(
              (row) =>
                html`<tr role="row">
                  ${row.map((cell, i) => html`<td role="cell" data-name="${head[i] ?? ""}">${cell ?? "–"}</td>`)}
                </tr>`
            )}
          </tbody>
        </table>
      </div>`

/** A list of names and values. */
export const facts = (rows: ReadonlyArray<readonly [string, Cell]>): Html =>
  html`<dl>
    ${rows.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value ?? "–"}</dd>
        </div>`
    )}
  </dl>`

/** A state, coloured by its severity. The colour adds nothing to the word. */
export const badge = (state: string): Html => html`<span class="badge ${tones[state] ?? ""}">${state}</span>`

const tones: Readonly<Record<string, string>> = {
  delivered: "good",
  sent: "good",
  completed: "good",
  enabled: "good",
  healthy: "good",
  active: "good",
  running: "busy",
  pending: "busy",
  delivering: "busy",
  retrying: "busy",
  cancelling: "busy",
  dead: "bad",
  failed: "bad",
  unknown: "bad",
  disabled: "bad",
  parked: "bad",
  failing: "bad",
  resting: "busy",
  revoked: "bad",
  expired: "bad"
}

/** A time, machine-readable and as text. */
export const time = (at: string | Date | null): Cell => {
  if (at === null) return null
  const text = typeof at === "string" ? at : at.toISOString()
  return html`<time datetime="${text}">${text.replace("T", " ").replace("Z", "")}</time>`
}

/** A count that stops at `max`. */
export const counted = (count: number, max: number): string => (count >= max ? `${max} or more` : String(count))

const units = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1]
] as const

/** A duration in its largest whole unit. */
export const duration = (seconds: number): string => {
  const [unit, length] = units.find(([, length]) => seconds >= length) ?? units[3]
  const count = Math.floor(seconds / length)
  return `${count} ${unit}${count === 1 ? "" : "s"}`
}

/** A GET form whose fields become the query of a page. */
export const filters = (path: string, hidden: Readonly<Record<string, string>>, fields: ReadonlyArray<Html>): Html =>
  html`<form method="get" action="${path}" class="filters">
    ${hiddenFields(hidden)} ${fields}
    <button>Filter</button>
  </form>`

/** A POST form that runs an action. */
export const action = (
  path: string,
  csrf: string,
  hidden: Readonly<Record<string, string>>,
  label: string,
  fields: ReadonlyArray<Html> = []
): Html =>
  html`<form method="post" action="${path}" class="action">
    ${hiddenFields({ ...hidden, csrf })} ${fields}
    <button>${label}</button>
  </form>`

const hiddenFields = (fields: Readonly<Record<string, string>>) =>
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
      ${options.map((value) =>
        value === chosen
          ? html`<option value="${value}" selected>${value}</option>`
          : html`<option value="${value}">${value}</option>`
      )}
    </select></label
  >`

export const input = (label: string, name: string, value: string | null, placeholder = ""): Html =>
  html`<label>${label} <input name="${name}" value="${value ?? ""}" placeholder="${placeholder}" /></label>`

/** A link to the next page; nothing if `query` is undefined. */
export const nextPage = (path: string, query: Parameters<typeof href>[1] | undefined, text = "Older"): Html =>
  query === undefined ? html`` : html`<p class="older"><a rel="next" href="${href(path, query)}">${text}</a></p>`
