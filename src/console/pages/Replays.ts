/** The replays of a project: their progress, and what delays them. */
import { Effect } from "effect"
import { listReplays } from "../../integrations/deliveries/Replays.ts"
import { list } from "../../integrations/endpoints/WebhookList.ts"
import { action, badge, html, idOf, input } from "../Html.ts"
import { listOf, orNotFound, pageSize, projectPage, textOf } from "../Page.ts"
import { recordLink } from "../Records.ts"

export const replays = projectPage(
  Effect.fnUntraced(function* ({ project, range, request, sql, time }) {
    const installation = textOf(request, "installation")
    const found = yield* orNotFound(listReplays(project.id, { ...range, installationId: installation }))
    const ids = found.items.filter(({ state }) => state === "running").map(({ installationId }) => installationId)
    const webhooks = yield* list(sql, project.id, sql`webhooks.installation_id = ANY(${ids}::text[])`, pageSize)
    const of = { project: project.id }
    const { csrf } = request.session
    return listOf(request, {
      range,
      filter: [input("Installation", "installation", installation)],
      title: `Replays of ${project.name}`,
      caption: "Replays, newest first",
      empty: "No such replays. The page of a webhook starts one.",
      found,
      columns: {
        Replay: ({ replayId }) => idOf(replayId),
        Installation: ({ installationId: id }) => recordLink("installation", project.id, id),
        State: ({ replayId, state }) =>
          html`${badge(state)}
          ${state === "running" ? action("replay.cancel", csrf, { ...of, replay: replayId }, "Cancel") : ""}`,
        Made: ({ made }) => String(made),
        Endpoint: ({ installationId, state }) => {
          const webhook = webhooks.find((webhook) => webhook.installationId === installationId)
          if (state !== "running" || webhook === undefined) return null
          const until =
            webhook.state === "parked" ? webhook.parkedUntil : webhook.state === "resting" ? webhook.restingUntil : null
          return html`${badge(webhook.condition)}${until === null ? "" : html` until ${time(until)}`}`
        },
        Events: ({ eventTypes, since, status, until }) =>
          html`${status}${eventTypes.length === 0 ? "" : `: ${eventTypes.join(", ")}`}, since ${time(since)} and before
          ${time(until)}`,
        Started: ({ createdAt }) => time(createdAt)
      }
    })
  })
)
