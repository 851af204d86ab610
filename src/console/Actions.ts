/** The actions of the console's forms. Each calls the same service as the corresponding command. */
import { Effect, Schema } from "effect"
import { Instant } from "../api/Instant.ts"
import { eventTypes } from "../api/integrations/Events.ts"
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
  /** A message shown before; absent if the page itself shows the result. */
  readonly message?: string
}

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
  return { page: deliveryPage(form) }
})

const test = Effect.fnUntraced(function* (form: URLSearchParams) {
  const events = yield* TestEvents
  const { durationMs, errorCode, status } = yield* events.send(yield* projectOf(form), text(form, "installation"))
  const result = status === null ? `There was no answer: ${errorCode}` : `The endpoint answered with status ${status}`
  return { page: webhookPage(form), message: `${result}, after ${durationMs} ms.` }
})

const setEnabled = (to: "enable" | "disable") =>
  Effect.fnUntraced(function* (form: URLSearchParams) {
    const webhooks = yield* WebhookControl
    yield* webhooks[to](yield* projectOf(form), text(form, "installation"))
    return { page: webhookPage(form) }
  })

const settle = Effect.fnUntraced(function* (form: URLSearchParams) {
  const messages = yield* Messages
  yield* messages.settle(
    yield* projectOf(form),
    text(form, "message"),
    yield* Schema.decodeUnknownEffect(Schema.Literals(["sent", "failed"]))(form.get("as"))
  )
  return { page: href("/console/messages", { project: text(form, "project"), status: "unknown" }) }
})

const ReplayForm = Schema.Struct({
  since: Instant,
  until: Instant,
  status: Schema.Literals(filterNames),
  type: Schema.Literals(["", ...eventTypes]),
  pace: Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 1, maximum: highestPace })),
  mode: Schema.Literals(["count only", "replay"])
})

const replay = Effect.fnUntraced(function* (form: URLSearchParams) {
  const replays = yield* Replays
  const { mode, pace, since, status, type, until } = yield* Schema.decodeUnknownEffect(ReplayForm)(
    Object.fromEntries(form)
  )
  const { matched, replayId } = yield* replays.start({
    projectId: yield* projectOf(form),
    installationId: text(form, "installation"),
    since: new Date(since),
    until: new Date(until),
    eventTypes: type === "" ? [] : [type],
    filter: status,
    pace,
    dryRun: mode === "count only"
  })
  return replayId === null
    ? { page: webhookPage(form), message: `${matched} deliveries match. None was queued.` }
    : { page: replaysPage(form) }
})

const cancelReplay = Effect.fnUntraced(function* (form: URLSearchParams) {
  const replays = yield* Replays
  yield* replays.cancel(yield* projectOf(form), text(form, "replay"))
  return { page: replaysPage(form) }
})

/** The actions by path. */
export const actions = {
  "/console/retry": retry,
  "/console/test": test,
  "/console/enable": setEnabled("enable"),
  "/console/disable": setEnabled("disable"),
  "/console/settle": settle,
  "/console/replay": replay,
  "/console/cancel-replay": cancelReplay
}
