/** The replays of a project, with their progress. */
import { Effect } from "effect"
import { Replays } from "../../integrations/Replays.ts"
import { action, badge, html, link, nextPage, table, time } from "../Html.ts"
import { pageSize, projectPage, textOf } from "../Page.ts"

export const replays = projectPage(
  Effect.fnUntraced(function* ({ project, request }) {
    const service = yield* Replays
    const range = { after: textOf(request, "cursor"), limit: pageSize }
    const { items, next } = yield* Effect.orDie(service.list(project.id, range))
    const head = ["Replay", "Installation", "State", "Progress", "Pace", "Deliveries", "Period", "Started", ""]
    const cells = items.map((item) => [
      item.replayId,
      link("/console/webhook", { project: project.id, installation: item.installationId }, item.installationId),
      item.endReason === "webhook_disabled" ? html`${badge(item.state)} its webhook was disabled` : badge(item.state),
      `${item.queued} of ${item.matched}${item.skipped === 0 ? "" : `, ${item.skipped} skipped`}`,
      `${item.pace} a second`,
      `${item.statuses.join(", ")}${item.eventTypes.length === 0 ? "" : `: ${item.eventTypes.join(", ")}`}`,
      html`${time(item.since)} to ${time(item.until)}`,
      time(item.createdAt),
      item.state === "running"
        ? action(
            "/console/cancel-replay",
            request.session.csrf,
            { project: project.id, replay: item.replayId },
            "Cancel"
          )
        : null
    ])
    return {
      title: `Replays of ${project.name}`,
      body: [
        table("Replays, newest first", head, cells, "No replays. The page of a webhook starts one."),
        nextPage("/console/replays", next === null ? undefined : { project: project.id, cursor: next })
      ]
    }
  })
)
