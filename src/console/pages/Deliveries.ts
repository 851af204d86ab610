/** The deliveries of a project, by state, event type, installation and time. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { eventTypes } from "../../api/integrations/Events.ts"
import { states } from "../../integrations/Deliveries/States.ts"
import { find, render } from "../DeliveryList.ts"
import { filters, input, select } from "../Html.ts"
import { type Asked, type Content, projectOf, textOf, timeOf, wordOf } from "../Page.ts"

export const deliveries = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, asked: Asked) {
  const project = yield* projectOf(sql, asked)
  const filter = {
    projectId: project.id,
    installationId: textOf(asked, "installation"),
    status: yield* wordOf(asked, "status", states),
    type: yield* wordOf(asked, "type", eventTypes),
    since: yield* timeOf(asked, "since"),
    until: yield* timeOf(asked, "until"),
    cursor: textOf(asked, "cursor")
  }
  const found = yield* find(sql, filter)
  const content: Content = {
    title: `Deliveries of ${project.name}`,
    project: project.id,
    body: [
      filters("/console/deliveries", { project: project.id }, [
        select("State", "status", states, filter.status),
        select("Event", "type", eventTypes, filter.type),
        input("Installation", "installation", filter.installationId),
        input("Since", "since", filter.since?.toISOString() ?? null, "2026-11-20T00:00:00Z"),
        input("Until", "until", filter.until?.toISOString() ?? null, "2026-11-21T00:00:00Z")
      ]),
      render(filter, found)
    ]
  }
  return content
})
