/** The deliveries of a project, by state, event type, installation and time. */
import { Effect } from "effect"
import { eventTypes } from "../../api/integrations/Events.ts"
import { states } from "../../integrations/Deliveries.ts"
import { find } from "../../integrations/DeliveryList.ts"
import { render } from "../DeliveryList.ts"
import { filters, input, select } from "../Html.ts"
import { choiceOf, pageSize, projectPage, textOf, timeOf } from "../Page.ts"

export const deliveries = projectPage(
  Effect.fnUntraced(function* ({ project, request, sql }) {
    const filter = {
      installationId: textOf(request, "installation"),
      status: yield* choiceOf(request, "status", states),
      type: yield* choiceOf(request, "type", eventTypes),
      since: yield* timeOf(request, "since"),
      until: yield* timeOf(request, "until")
    }
    const found = yield* find(sql, project.id, filter, { after: textOf(request, "cursor"), limit: pageSize })
    return {
      title: `Deliveries of ${project.name}`,
      body: [
        filters("/console/deliveries", { project: project.id }, [
          select("State", "status", states, filter.status),
          select("Event", "type", eventTypes, filter.type),
          input("Installation", "installation", filter.installationId),
          input("Since", "since", filter.since?.toISOString() ?? null, "2026-11-20T00:00:00Z"),
          input("Until", "until", filter.until?.toISOString() ?? null, "2026-11-21T00:00:00Z")
        ]),
        render(project.id, filter, found)
      ]
    }
  })
)
