/** The actions of the console's forms. Each calls the same function as the corresponding command. */
import { Effect, Option, Record, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { Instant } from "../api/schema/Instant.ts"
import { eventTypes } from "../api/integrations/Events.ts"
import { pendingMax } from "../api/integrations/WebhookHealth.ts"
import { ProjectId } from "../api/schema/Ids.ts"
import { commandCampaign, operations, showCampaign } from "../campaigns/CampaignControl.ts"
import { retryDelivery, showDelivery } from "../integrations/deliveries/Deliveries.ts"
import {
  cancelReplay,
  filterNames,
  highestPace,
  newReplayId,
  ReplayId,
  startReplay
} from "../integrations/deliveries/Replays.ts"
import { sendTestEvent } from "../integrations/TestEvents.ts"
import { disableWebhook, enableWebhook, showWebhook } from "../integrations/WebhookControl.ts"
import { settleMessage } from "../messaging/Messages.ts"
import { LongRunning } from "../platform/mutations/LongRunning.ts"
import type { ProjectUnknown } from "../platform/operators/ProjectUnknown.ts"
import type { Refused } from "../platform/operators/Refused.ts"
import { plural } from "../platform/operators/Search.ts"
import { href } from "./Html.ts"

export const campaignLabels = {
  pause: "Pause the campaign",
  resume: "Resume the campaign",
  cancel: "Cancel the campaign"
}

export interface ActionResult {
  /** The page to which the browser returns. */
  readonly page: string
  /** What was done, shown on the page. Absent if the page itself shows the result. */
  readonly done?: { readonly title: string; readonly message: string }
  /** What the action will do. Present if the action waits for a confirmation. */
  readonly ask?: { readonly title: string; readonly message: string; readonly label: string }
  /** Fields that only the form of the confirmation has. */
  readonly hidden?: Readonly<Record<string, string>>
}

export type ActionError = ProjectUnknown | Refused | Schema.SchemaError | SqlError.SqlError

interface Parts {
  readonly form: URLSearchParams
  readonly projectId: ProjectId
  readonly text: (field: string) => string
  readonly isConfirmed: boolean
}

/** Makes an action. The parameters of its page are the project and the form fields in `query`. */
const action =
  <E, R>(
    path: string,
    query: ReadonlyArray<string>,
    run: (parts: Parts) => Effect.Effect<Partial<ActionResult>, E, R>
  ) =>
  (form: URLSearchParams) =>
    Effect.flatMap(Schema.decodeUnknownEffect(ProjectId)(form.get("project")), (projectId) => {
      const text = (field: string) => form.get(field) ?? ""
      const page = href(path, Object.fromEntries(["project", ...query].map((field) => [field, text(field)])))
      return Effect.map(
        run({ form, projectId, text, isConfirmed: text("confirmed") === "yes" }),
        (result): ActionResult => ({ page, ...result })
      )
    })

const done = (title: string, message: string) => ({ done: { title, message } })
const ask = (title: string, message: string, label: string) => ({ ask: { title, message, label } })

const retry = action(
  "/console/delivery",
  ["id"],
  Effect.fnUntraced(function* ({ isConfirmed, projectId, text }) {
    const id = text("id")
    if (isConfirmed) {
      const message = "The delivery is pending again. It is sent as soon as its endpoint may get one."
      return yield* retryDelivery(projectId, id).pipe(
        Effect.as(done("The delivery is retried", message)),
        // If the form was sent twice, the first request has retried the delivery. The second is refused, because the delivery is
        // not dead any more.
        Effect.catchTag("Refused", (refused) =>
          Effect.flatMap(showDelivery(projectId, id), ({ status }) =>
            status === "dead"
              ? Effect.fail(refused)
              : Effect.succeed(
                  done(`The delivery is ${status} already`, "It is not dead any more, so it is not retried again.")
                )
          )
        )
      )
    }
    const { attempts, eventType, installationId } = yield* showDelivery(projectId, id)
    const message = `Its event ${eventType} is sent to the webhook of ${installationId} again. It has had ${plural(attempts, "attempt", "attempts")}.`
    return ask(`Retry the delivery ${id}?`, message, "Retry the delivery")
  })
)

const test = action(
  "/console/webhook",
  ["installation"],
  Effect.fnUntraced(function* ({ isConfirmed, projectId, text }) {
    const installation = text("installation")
    if (!isConfirmed) {
      const { endpointUrl } = yield* showWebhook(projectId, installation)
      const message = `One signed event without data is sent to ${endpointUrl} now. Nothing is stored of it.`
      return ask(`Send a test event to ${installation}?`, message, "Send the test event")
    }
    const { durationMs, errorCode, status } = yield* sendTestEvent(projectId, installation)
    const isDelivered = status !== null && status >= 200 && status <= 299
    const result = status === null ? `There was no answer: ${errorCode}` : `The endpoint answered with status ${status}`
    return done(`The test event was ${isDelivered ? "" : "not "}delivered`, `${result}, after ${durationMs} ms.`)
  })
)

const enable = action("/console/webhook", ["installation"], ({ projectId, text }) =>
  Effect.as(
    enableWebhook(projectId, text("installation")),
    done(
      "The webhook is enabled",
      "Its endpoint is tried at once. What was dead-lettered meanwhile can be replayed on the page of the webhook."
    )
  )
)

const disable = action(
  "/console/webhook",
  ["installation"],
  Effect.fnUntraced(function* ({ isConfirmed, projectId, text }) {
    const installation = text("installation")
    if (isConfirmed) {
      // Uses the pool for long statements, because there may be millions of pending deliveries to count.
      const { mutations } = yield* LongRunning
      const { deadLettered } = yield* disableWebhook(projectId, installation).pipe(
        Effect.provideService(SqlClient.SqlClient, mutations.sql)
      )
      const message = `${plural(deadLettered, "delivery was", "deliveries were")} dead-lettered. Enable the webhook and replay them to send them after all.`
      return done("The webhook is disabled", message)
    }
    const { pending } = yield* showWebhook(projectId, installation)
    const count = `${pending >= pendingMax ? "at least " : ""}${plural(pending, "pending delivery", "pending deliveries")}`
    const message = `Nothing more is sent to its endpoint, and ${count} will be dead-lettered.`
    return ask(`Disable the webhook of ${installation}?`, message, "Disable the webhook")
  })
)

const settle = action(
  "/console/message",
  ["id"],
  Effect.fnUntraced(function* ({ form, isConfirmed, projectId, text }) {
    const as = yield* Schema.decodeUnknownEffect(Schema.Literals(["sent", "failed"]))(form.get("as"))
    const id = text("id")
    if (isConfirmed) {
      yield* settleMessage(projectId, id, as)
      return done(`The message is settled as ${as}`, `Callers see the message ${id} as ${as} now.`)
    }
    const message = "This is final: the message is not sent again, and its callers see this state."
    return ask(`Settle the message ${id} as ${as}?`, message, `Settle as ${as}`)
  })
)

/** For each command: what happens to the recipients that have no final state yet, and the word for the result. */
const commands = {
  pause: ["wait until the campaign is resumed; attempts that were begun go on", "paused"],
  resume: ["get the message, at the pace of the campaign", "resumed"],
  cancel: ["do not get the message; a cancelled campaign cannot be resumed", "cancelled"]
} as const

const command = action(
  "/console/campaign",
  ["id"],
  Effect.fnUntraced(function* ({ form, isConfirmed, projectId, text }) {
    const operation = yield* Schema.decodeUnknownEffect(Schema.Literals(operations))(form.get("operation"))
    const [effect, result] = commands[operation]
    const { eligible, name, progress } = yield* showCampaign(projectId, text("id"))
    const { failed, pending, recipients, sent, skipped } = progress
    const left = plural(recipients === 0 ? (eligible ?? 0) : pending, "recipient", "recipients")
    if (isConfirmed) {
      yield* commandCampaign(projectId, text("id"), operation)
      return done(`The campaign is ${result}`, `${left} had not been settled before.`)
    }
    const message = `Of its recipients ${sent} were sent to, ${failed} failed and ${skipped} were skipped. The remaining ${left} ${effect}.`
    return ask(`${campaignLabels[operation]} ${name}?`, message, campaignLabels[operation])
  })
)

const ReplayForm = Schema.Struct({
  since: Instant,
  until: Instant,
  status: Schema.Literals(filterNames),
  type: Schema.Literals(["", ...eventTypes]),
  pace: Schema.String.check(Schema.isPattern(/^[0-9]+$/)).pipe(
    Schema.decodeTo(Schema.FiniteFromString.check(Schema.isBetween({ minimum: 1, maximum: highestPace })))
  ),
  replayId: Schema.optionalKey(ReplayId)
})

/** What to write in each text field, shown if its value is invalid. */
export const replayFields = {
  since: "A time such as 2026-11-20T00:00:00Z.",
  until: "A time such as 2026-11-21T00:00:00Z.",
  pace: `A whole number from 1 to ${highestPace}.`
} as const

const faultsOf = (form: URLSearchParams) =>
  Record.keys(replayFields).filter((name) =>
    Option.isNone(Schema.decodeUnknownOption(ReplayForm.fields[name])(form.get(name)))
  )

const replay = action(
  "/console/webhook",
  ["installation"],
  Effect.fnUntraced(function* ({ form, isConfirmed, projectId, text }) {
    const { csrf: _, ...fields } = Object.fromEntries(form)
    const faults = faultsOf(form)
    if (faults.length > 0) return { page: href("/console/webhook", { ...fields, faulty: faults.join(",") }) }
    const { pace, replayId, since, status, type, until } = yield* Schema.decodeUnknownEffect(ReplayForm)(fields)
    const { matched } = yield* startReplay({
      projectId,
      installationId: text("installation"),
      since: new Date(since),
      until: new Date(until),
      eventTypes: type === "" ? [] : [type],
      filter: status,
      pace,
      dryRun: !isConfirmed,
      replayId
    })
    if (isConfirmed) return { page: href("/console/replays", { project: projectId }) }
    if (matched === 0) return done("Nothing to replay", "No delivery matches.")
    const message = `${plural(matched, "delivery matches and is", "deliveries match and are")} sent again, at most ${pace} a second.`
    // The id is a field of the confirmation's form, so that the form starts only one replay even if it is sent twice.
    return { ...ask("Start this replay?", message, "Start the replay"), hidden: { replayId: yield* newReplayId } }
  })
)

const cancel = action(
  "/console/replays",
  [],
  Effect.fnUntraced(function* ({ isConfirmed, projectId, text }) {
    if (!isConfirmed) {
      const message = "Its deliveries that were not sent yet are dead-lettered. A cancelled replay cannot be resumed."
      return ask("Cancel this replay?", message, "Cancel the replay")
    }
    yield* cancelReplay(projectId, text("replay"))
    return {}
  })
)

export const actions = {
  "/console/retry": retry,
  "/console/test": test,
  "/console/enable": enable,
  "/console/disable": disable,
  "/console/settle": settle,
  "/console/campaign-command": command,
  "/console/replay": replay,
  "/console/cancel-replay": cancel
}
