/** Charts of a sample of deliveries, as SVG. Each has a text that says the same. */
import type { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/Ids.ts"
import { type Html, html } from "./Html.ts"

/** Number of slices of the period, and their length. */
const slices = 48
const sliceMinutes = 15
/** Maximum sizes of the sample, which bound its duration: deliveries of a project in a slice, and projects. */
const perSlice = 40
const maxProjects = 20

/** The sample of a slice. Slices are counted back from now. */
interface Slice {
  readonly slice: number
  readonly count: number
  readonly delivered: number
  readonly p50: number | null
  readonly p95: number | null
}

/** Samples the deliveries that have finished in the last hours: of one project, or (null) of the first `maxProjects`. */
export const sample = (sql: SqlClient.SqlClient, projectId: ProjectId | null) => sql<Slice>`
  SELECT slice, count(*)::int AS count, (count(*) FILTER (WHERE status = 'delivered'))::int AS delivered,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY millis) AS p50, percentile_disc(0.95) WITHIN GROUP (ORDER BY millis) AS p95
  FROM generate_series(0, ${slices - 1}::int) slice, (
    SELECT project_id FROM projects WHERE ${projectId}::text IS NULL OR project_id = ${projectId}
    ORDER BY project_id LIMIT ${maxProjects}::int
  ) project, LATERAL (
    SELECT status, (attempt_log -> -1 ->> 'durationMs')::int AS millis FROM deliveries
    WHERE project_id = project.project_id
      AND finished_at > now() - (slice + 1) * ${sliceMinutes}::int * interval '1 minute'
      AND finished_at <= now() - slice * ${sliceMinutes}::int * interval '1 minute'
    ORDER BY finished_at LIMIT ${perSlice}::int
  ) finished
  GROUP BY slice`

const width = 440
const height = 120
const step = width / slices
/** The oldest slice is at the left. */
const x = (slice: number) => Math.round((slices - 1 - slice) * step * 10) / 10

/** Both charts, with a note on the sample. */
export const charts = (found: ReadonlyArray<Slice>): Html => {
  const hours = (slices * sliceMinutes) / 60
  const count = found.reduce((sum, slice) => sum + slice.count, 0)
  const delivered = found.reduce((sum, slice) => sum + slice.delivered, 0)
  const slowest = Math.max(1, ...found.map(({ p95 }) => p95 ?? 0))
  if (count === 0) return html`<p class="empty">No delivery has finished in the last ${hours} hours.</p>`
  const rate = `${Math.round((delivered / count) * 1000) / 10} % of the sample was delivered`
  const latency = `95 % of the attempts took at most ${slowest} ms in the slowest quarter of an hour`
  return html`<div class="charts">
      ${figure("Success rate", rate, [rateBars(found)])}
      ${figure("Latency", latency, [line("line", found, "p50", slowest), line("high", found, "p95", slowest)])}
    </div>
    <p class="empty">
      The last ${hours} hours, sampled: up to ${perSlice} finished deliveries of a project in each quarter of an hour.
      Latency is that of the last attempt: median and 95th percentile.
    </p>`
}

const figure = (name: string, summary: string, content: ReadonlyArray<Html>) =>
  html`<figure>
    <figcaption>${name}: ${summary}</figcaption>
    <svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${name}: ${summary}">${content}</svg>
  </figure>`

const rateBars = (found: ReadonlyArray<Slice>) =>
  html`${found.map(({ count, delivered, slice }) => {
    const good = Math.round((delivered / count) * height)
    return html`<rect class="bar" x="${x(slice)}" y="${height - good}" width="${step - 1}" height="${good}"></rect>
      <rect class="lost" x="${x(slice)}" y="0" width="${step - 1}" height="${height - good}"></rect>`
  })}`

const line = (tone: string, found: ReadonlyArray<Slice>, of: "p50" | "p95", highest: number) => {
  const points = found
    .toSorted((one, other) => other.slice - one.slice)
    .map((slice) => `${x(slice.slice)},${Math.round(height - 4 - ((slice[of] ?? 0) / highest) * (height - 10))}`)
  return html`<polyline class="${tone}" points="${points.join(" ")}"></polyline>`
}
