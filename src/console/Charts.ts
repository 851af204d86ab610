/** Charts of delivery attempts, as SVG. A table below them has the same numbers. */
import { scaleLinear, scaleUtc } from "d3-scale"
import { line } from "d3-shape"
import { Effect, Record } from "effect"
import type { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { readAttempts, type Slice } from "../webhooks/delivery/DeliveryMetrics.ts"
import { plural } from "../platform/Text.ts"
import { type Html, html, link, table } from "./Html.ts"
import { choiceOf, type PageRequest } from "./Page.ts"

/** The periods to choose from: minutes of a slice, and number of slices. */
const periods = {
  "1 hour": { minutes: 1, slices: 60 },
  "12 hours": { minutes: 15, slices: 48 },
  "7 days": { minutes: 180, slices: 56 }
} as const
const names = Record.keys(periods)

const minute = 60_000

/** Draws the attempts of a project, or of all if `projectId` is null, in the period of the query, with links to other periods. */
export const attemptCharts = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  request: PageRequest,
  projectId: ProjectId | null
) {
  const period = (yield* choiceOf(request, "period", names)) ?? "1 hour"
  const { minutes } = periods[period]
  const read = yield* readAttempts(sql, projectId, periods[period])
  const links = names.map((name) =>
    name === period ? html`<strong>${name}</strong>` : link(request.path, { project: projectId, period: name }, name)
  )
  const newest = (Math.floor(request.session.now / minute) + 1) * minute
  const end = (slice: number) => new Date(newest - slice * minutes * minute)
  return [
    html`<p class="links">Attempts of the last ${links}</p>`,
    read.every(({ delivered, failed }) => delivered + failed === 0)
      ? html`<p class="empty">No attempt was made.</p>`
      : drawn(read, end, minutes)
  ]
})

const width = 560
const height = 180
const margin = { top: 10, right: 26, bottom: 30, left: 64 }

const drawn = (shown: ReadonlyArray<Slice>, end: (slice: number) => Date, minutes: number): Html => {
  const x = scaleUtc([end(shown.length), end(0)], [margin.left, width - margin.right])
  const vertical = (highest: number) => scaleLinear([0, highest], [height - margin.bottom, margin.top]).nice(4)
  const delivered = shown.reduce((sum, slice) => sum + slice.delivered, 0)
  const failed = shown.reduce((sum, slice) => sum + slice.failed, 0)

  const attempts = vertical(Math.max(4, ...shown.map((slice) => slice.delivered + slice.failed)))
  const bars = shown.map(({ delivered, failed, slice }) => {
    const [from, to] = [x(end(slice + 1)), x(end(slice))]
    const bar = (tone: string, low: number, high: number) =>
      high === low
        ? ""
        : html`<rect
            class="${tone}"
            x="${tenth(from)}"
            width="${tenth(Math.max(1, to - from - 1))}"
            y="${tenth(attempts(high))}"
            height="${tenth(attempts(low) - attempts(high))}"
          ></rect>`
    return html`${bar("bar", 0, delivered)}${bar("lost", delivered, delivered + failed)}`
  })

  const millis = vertical(Math.max(4, ...shown.map(({ p95 }) => p95 ?? 0)))
  const middle = (slice: number) => (x(end(slice + 1)) + x(end(slice))) / 2
  const curve = (tone: string, of: "p50" | "p95") => {
    const drawn = line<Slice>(
      ({ slice }) => tenth(middle(slice)),
      (slice) => tenth(millis(slice[of] ?? 0))
    ).defined((slice) => slice[of] !== null)
    const dots = shown.map(({ [of]: value, slice }) =>
      value === null
        ? ""
        : html`<circle class="${tone}" cx="${tenth(middle(slice))}" cy="${tenth(millis(value))}" r="2"></circle>`
    )
    return html`<path class="${tone}" d="${drawn([...shown]) ?? ""}"></path>${dots}`
  }

  return html`<div class="charts">
      ${figure(
        `Attempts: ${grouped(delivered)} delivered, ${grouped(failed)} failed`,
        { bar: "delivered", lost: "failed" },
        [axes(x, attempts, (value) => value.toLocaleString("en", { notation: "compact" })), bars]
      )}
      ${figure("Duration of attempts", { line: "median", high: "95th percentile" }, [
        axes(x, millis, shownMillis),
        curve("line", "p50"),
        curve("high", "p95")
      ])}
    </div>
    <details>
      <summary>The same as numbers</summary>
      ${table(
        `Attempts in slices of ${plural(minutes, "minute", "minutes")}, newest first, durations at most 19 % too long`,
        {
          From: ({ slice }) => clock(end(slice + 1)),
          Delivered: ({ delivered }) => delivered,
          Failed: ({ failed }) => failed,
          Median: { number: ({ p50 }) => (p50 === null ? null : shownMillis(p50)) },
          "95th percentile": { number: ({ p95 }) => (p95 === null ? null : shownMillis(p95)) }
        },
        shown.filter(({ delivered, failed }) => delivered + failed > 0),
        "No attempt was made."
      )}
    </details>`
}

const grouped = (value: number) => value.toLocaleString("en")

const tenth = (value: number) => Math.round(value * 10) / 10

const shownMillis = (millis: number) => (millis >= 1_000 ? `${tenth(millis / 1_000)} s` : `${Math.round(millis)} ms`)

const clock = (at: Date) => at.toISOString().slice(0, 16).replace("T", " ")

const figure = (
  name: string,
  /** The names by the tones of the curves. */
  legend: Readonly<Record<string, string>>,
  content: ReadonlyArray<Html | ReadonlyArray<Html>>
) =>
  html`<figure>
    <figcaption>
      ${name}
      <span class="legend"
        >${Object.entries(legend).map(([tone, name]) => html`<span><span class="key ${tone}"></span> ${name}</span> `)}</span
      >
    </figcaption>
    <svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${name}">${content}</svg>
  </figure>`

const tick = (at: Date) => {
  const text = clock(at)
  return text.endsWith(" 00:00") ? text.slice(5, 10) : text.slice(11)
}

const axes = (
  x: ReturnType<typeof scaleUtc<number, number>>,
  y: ReturnType<typeof scaleLinear<number, number>>,
  label: (value: number) => string
): Html => {
  return html`${y
    .ticks(4)
    .map(
      (value) =>
        html`<line
            class="grid"
            x1="${margin.left}"
            x2="${width - margin.right}"
            y1="${tenth(y(value))}"
            y2="${tenth(y(value))}"
          ></line>
          <text x="${margin.left - 6}" y="${tenth(y(value) + 4)}" text-anchor="end">${label(value)}</text>`
    )}
  ${x.ticks(6).map((at) => html`<text x="${tenth(x(at))}" y="${height - 5}" text-anchor="middle">${tick(at)}</text>`)}`
}
