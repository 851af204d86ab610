/** The replays of a project, with their progress. */
import { Effect } from "effect"
import { Replays } from "../../integrations/Replays.ts"
import type { SqlClient } from "effect/sql"
import { action, badge, html, link, table, time } from "../Html.ts"
import { type Asked, type Content, projectOf } from "../Page.ts"

export const replays = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, asked: Asked) {
  const project = yield* projectOf(sql, asked)
  const service = yield* Replays
  const items = yield* Effect.orDie(service.list(project.id))
  const head = ["Replay", "Installation", "State", "Progress", "Pace", "Deliveries", "Period", "Started", ""]
  const cells = items.map((item) => [
    item.replayId,
    link("/console/webhook", { project: project.id, installation: item.installationId }, item.installationId),
    badge(item.state),
    `${item.queued} of ${item.matched}`,
    `${item.pace} a second`,
    `${item.statuses.join(", ")}${item.eventTypes.length === 0 ? "" : `: ${item.eventTypes.join(", ")}`}`,
    html`${time(item.since)} to ${time(item.until)}`,
    time(item.createdAt),
    item.state === "running"
      ? action("/console/cancel-replay", asked.session.csrf, { project: project.id, replay: item.replayId }, "Cancel")
      : null
  ])
  const content: Content = {
    title: `Replays of ${project.name}`,
    project: project.id,
    body: [
      table(
        "Replays, the newest first",
        head,
        cells,
        "Nothing was replayed yet. The page of a webhook starts a replay."
      )
    ]
  }
  return content
})
