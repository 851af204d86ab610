/** The actions of the console's forms. Each calls the same service as the corresponding command. */
import { Effect, Option, Record, Schema } from "effect"
import { Instant } from "../api/Instant.ts"
import { eventTypes } from "../api/integrations/Events.ts"
import { pendingMax } from "../api/integrations/WebhookHealth.ts"
import { ProjectId } from "../api/Ids.ts"
import { Deliveries } from "../integrations/Deliveries.ts"
import { filterNames, highestPace, Replays } from "../integrations/Replays.ts"
import { TestEvents } from "../integrations/TestEvents.ts"
import { WebhookControl } from "../integrations/WebhookControl.ts"
import { Messages } from "../messaging/Messages.ts"
import { href } from "./Html.ts"

/** The result of an action. */
export interface ActionResult {
  /** The page to which the browser returns. */
  readonly page: string
  /** What was done, shown before; absent if the page itself shows the result. */
  readonly done?: { readonly title: string; readonly message: string }
  /** What the action will do, if it was not done yet: it waits for a confirmation. */
  readonly ask?: { readonly title: string; readonly message: string; readonly label: string }
}

/** Whether the operator has seen what the action will do. */
const isConfirmed = (form: URLSearchParams) => form.get("confirmed") === "yes"

const plural = (count: number, one: string, many: string) => `${count} ${count === 1 ? one : many}`

const projectOf = (form: URLSearchParams) => Schema.decodeUnknownEffect(ProjectId)(form.get("project"))

const text = (form: URLSearchParams, name: string) => form.get(name) ?? ""

const deliveryPage = (form: URLSearchParams) =>
  href("/console/delivery", { project: text(form, "project"), id: text(form, "id") })
const webhookPage = (form: URLSearchParams) =>
  href("/console/webhook", { project: text(form, "project"), installation: text(form, "installation") })
const replaysPage = (form: URLSearchParams) => href("/console/replays", { project: text(form, "project") })

const retry = Effect.fnUntraced(function* (form: URLSearchParams) {
  const deliveries = yield* Deliveries
  yield* deliveries.retry(yield* projectOf(form), text(form, "id"))
  const message = "The delivery is pending again. It is sent as soon as its endpoint may get one."
  return { page: deliveryPage(form), done: { title: "The delivery is retried", message } }
})

const test = Effect.fnUntraced(function* (form: URLSearchParams) {
  const events = yield* TestEvents
  const { durationMs, errorCode, status } = yield* events.send(yield* projectOf(form), text(form, "installation"))
  const isDelivered = status !== null && status >= 200 && status <= 299
  const title = isDelivered ? "The test event was delivered" : "The test event was not delivered"
  const result = status === null ? `There was no answer: ${errorCode}` : `The endpoint answered with status ${status}`
  return { page: webhookPage(form), done: { title, message: `${result}, after ${durationMs} ms.` } }
})

const enable = Effect.fnUntraced(function* (form: URLSearchParams) {
  const webhooks = yield* WebhookControl
  yield* webhooks.enable(yield* projectOf(form), text(form, "installation"))
  const message =
    "Its endpoint is tried at once. What was dead-lettered meanwhile can be replayed on the page of the webhook."
  return { page: webhookPage(form), done: { title: "The webhook is enabled", message } }
})

const disable = Effect.fnUntraced(function* (form: URLSearchParams) {
  const webhooks = yield* WebhookControl
  const projectId = yield* projectOf(form)
  const installation = text(form, "installation")
  if (!isConfirmed(form)) {
    const pending = yield* webhooks.pending(projectId, installation)
    const count =
      pending >= pendingMax
        ? `at least ${pendingMax} pending deliveries`
        : plural(pending, "pending delivery", "pending deliveries")
    const message = `Nothing more is sent to its endpoint, and ${count} will be dead-lettered.`
    const title = `Disable the webhook of ${installation}?`
    return { page: webhookPage(form), ask: { title, message, label: "Disable the webhook" } }
  }
  const { deadLettered } = yield* webhooks.disable(projectId, installation)
  const message = `${plural(deadLettered, "delivery was", "deliveries were")} dead-lettered. Enable the webhook and replay them to send them after all.`
  return { page: webhookPage(form), done: { title: "The webhook is disabled", message } }
})

const settle = Effect.fnUntraced(function* (form: URLSearchParams) {
  const messages = yield* Messages
  const projectId = yield* projectOf(form)
  const as = yield* Schema.decodeUnknownEffect(Schema.Literals(["sent", "failed"]))(form.get("as"))
  const id = text(form, "message")
  const page = href("/console/messages", { project: projectId, status: "unknown" })
  if (!isConfirmed(form)) {
    const message = "This is final: the message is not sent again, and its callers see this state."
    return { page, ask: { title: `Settle the message ${id} as ${as}?`, message, label: `Settle as ${as}` } }
  }
  yield* messages.settle(projectId, id, as)
  return {
    page,
    done: { title: `The message is settled as ${as}`, message: `Callers see the message ${id} as ${as} now.` }
  }
})

const ReplayForm = Schema.Struct({
  since: Instant,
  until: Instant,
  status: Schema.Literals(filterNames),
  type: Schema.Literals(["", ...eventTypes]),
  pace: Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 1, maximum: highestPace }))
})

/** What a field of the form has to be, for the page that shows the form again. */
export const replayFaults = {
  since: "A time such as 2026-11-20T00:00:00Z.",
  until: "A time such as 2026-11-21T00:00:00Z, after the first.",
  status: "One of the states.",
  type: "One of the types of events.",
  pace: `A whole number from 1 to ${highestPace}.`
}

const fieldNames = Record.keys(ReplayForm.fields)

/** Returns the names of the fields that are faulty. */
const faultsOf = (form: URLSearchParams) =>
  fieldNames.filter((name) => Option.isNone(Schema.decodeUnknownOption(ReplayForm.fields[name])(form.get(name))))

const replay = Effect.fnUntraced(function* (form: URLSearchParams) {
  const replays = yield* Replays
  const faults = faultsOf(form)
  if (faults.length > 0) {
    const filled = Object.fromEntries(fieldNames.map((name) => [name, form.get(name)]))
    const { installation, project } = Object.fromEntries(form)
    return { page: href("/console/webhook", { project, installation, ...filled, faulty: faults.join(",") }) }
  }
  const { pace, since, status, type, until } = yield* Schema.decodeUnknownEffect(ReplayForm)(Object.fromEntries(form))
  const start = (dryRun: boolean) =>
    Effect.flatMap(projectOf(form), (projectId) =>
      replays.start({
        projectId,
        installationId: text(form, "installation"),
        since: new Date(since),
        until: new Date(until),
        eventTypes: type === "" ? [] : [type],
        filter: status,
        pace,
        dryRun
      })
    )
  if (!isConfirmed(form)) {
    const { matched } = yield* start(true)
    const message = `${plural(matched, "delivery matches and is", "deliveries match and are")} sent again, at most ${pace} a second.`
    if (matched === 0)
      return { page: webhookPage(form), done: { title: "Nothing to replay", message: "No delivery matches." } }
    return { page: webhookPage(form), ask: { title: "Start this replay?", message, label: "Start the replay" } }
  }
  yield* start(false)
  return { page: replaysPage(form) }
})

const cancelReplay = Effect.fnUntraced(function* (form: URLSearchParams) {
  const replays = yield* Replays
  if (!isConfirmed(form)) {
    const message = "What it has queued already is sent; nothing more is queued. A cancelled replay cannot be resumed."
    return { page: replaysPage(form), ask: { title: "Cancel this replay?", message, label: "Cancel the replay" } }
  }
  yield* replays.cancel(yield* projectOf(form), text(form, "replay"))
  return { page: replaysPage(form) }
})

/** The actions by path. */
export const actions = {
  "/console/retry": retry,
  "/console/test": test,
  "/console/enable": enable,
  "/console/disable": disable,
  "/console/settle": settle,
  "/console/replay": replay,
  "/console/cancel-replay": cancelReplay
}
