/** The replays of a project: their progress, their pace, and what delays them. */
import { Effect } from "effect"
import { listReplays } from "../../integrations/deliveries/Replays.ts"
import { list, type Listed as Webhook } from "../../integrations/endpoints/WebhookList.ts"
import { action, badge, type Cell, duration, html, idLink, idOf, progress, type Time } from "../Html.ts"
import { listOf, orNotFound, pageSize, projectPage } from "../Page.ts"

/** Says what keeps a running replay below its pace. */
const holdOf = (webhook: Webhook | undefined, time: Time): Cell => {
  if (webhook === undefined || !webhook.enabled) return "its webhook is disabled: the replay ends"
  const until =
    webhook.state === "parked" ? webhook.parkedUntil : webhook.state === "resting" ? webhook.restingUntil : null
  if (until !== null) return html`its endpoint is ${badge(webhook.state)} until ${time(until)}`
  return webhook.suspect
    ? html`its endpoint is ${badge(webhook.state)}: one delivery at a time`
    : "live deliveries go first"
}

export const replays = projectPage(
  Effect.fnUntraced(function* ({ project, range, request, sql, time }) {
    const found = yield* orNotFound(listReplays(project.id, range))
    const ids = found.items.filter(({ state }) => state === "running").map(({ installationId }) => installationId)
    const webhooks = yield* list(sql, project.id, sql`webhooks.installation_id = ANY(${ids}::text[])`, pageSize)
    const of = { project: project.id }
    const { csrf } = request.session
    return listOf(request, {
      title: `Replays of ${project.name}`,
      caption: "Replays, newest first",
      empty: "No replays. The page of a webhook starts one.",
      found,
      columns: {
        Replay: ({ replayId }) => idOf(replayId),
        Installation: ({ installationId: id }) => idLink("/console/webhook", { ...of, installation: id }, id),
        State: ({ endReason, replayId, state }) =>
          html`${badge(state)} ${endReason === "webhook_disabled" ? "its webhook was disabled" : ""}
          ${state === "running" ? action("replay.cancel", csrf, { ...of, replay: replayId }, "Cancel") : ""}`,
        Progress: ({ matched, pace, queued, skipped, state }) =>
          html`${progress(queued, matched, "Queued deliveries")}${skipped === 0 ? "" : `, ${skipped} skipped`}, at most
          ${pace} a
          second${state === "running" && matched - queued > pace ? `, so at least ${duration((matched - queued) / pace)} more` : ""}`,
        "Held by": ({ installationId, state }) =>
          state === "cancelling"
            ? "deliveries in flight"
            : state === "running"
              ? holdOf(
                  webhooks.find((webhook) => webhook.installationId === installationId),
                  time
                )
              : null,
        Deliveries: ({ eventTypes, since, statuses, until }) =>
          html`${statuses.join(", ")}${eventTypes.length === 0 ? "" : `: ${eventTypes.join(", ")}`}, created since
          ${time(since)} and before ${time(until)}`,
        Started: ({ createdAt }) => time(createdAt)
      }
    })
  })
)
