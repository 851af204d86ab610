/** `deliveries replay`, `replays` and `cancel-replay`: deliver stored events again, list such replays, and cancel one. */
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { eventTypes } from "../../../api/integrations/Events.ts"
import {
  cancelReplay,
  filterNames,
  highestPace,
  listReplays,
  startReplay,
  usualPace
} from "../../../integrations/deliveries/Replays.ts"
import { plural } from "../../../platform/operators/Search.ts"
import * as Flags from "../../Flags.ts"
import { onMigratedDatabase } from "../../OnDatabase.ts"
import { answer, answerPage, cli, table } from "../../Output.ts"

const countOf = (deliveries: number) => plural(deliveries, "delivery", "deliveries")

export const replay = Command.make(
  "replay",
  {
    json: Flags.json,
    project: Flags.project,
    installationId: Flags.installation,
    since: Flags.time("since", "Only deliveries that were created at this time or later (required)"),
    until: Flags.time("until", "Only deliveries that were created before this time (required)"),
    eventTypes: Flag.Literals("type", eventTypes).pipe(
      Flag.withMetavar("TYPE"),
      Flag.withDescription("Only events of this type: repeat the flag for each type; all types if not given"),
      Flag.atLeast(0)
    ),
    filter: Flag.Literals("status", filterNames).pipe(
      Flag.withDescription("Only deliveries in this state; dead if not given"),
      Flag.withDefault("dead" as const)
    ),
    pace: Flags.integer("pace", 1, highestPace).pipe(
      Flag.withDescription(`Maximum number of deliveries per second; ${usualPace} if not given`),
      Flag.withDefault(usualPace)
    ),
    dryRun: Flags.toggle("dry-run", "Count the deliveries, and replay none")
  },
  Effect.fn(function* ({ json, project, since, until, ...request }) {
    const projectId = yield* Flags.projectId(project)
    const started = yield* startReplay({ ...request, projectId, since, until })
    const text =
      started.replayId === null
        ? `${countOf(started.matched)} would be sent again`
        : `Replay ${started.replayId}: ${countOf(started.queued)} will be sent again`
    yield* answer(json, started, text)
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("Send stored events to a webhook again. Live events are sent first"),
  Command.withExamples([
    {
      command: `${cli} deliveries replay --project demo --installation ins_shop --since 2026-11-20T00:00:00Z --until 2026-11-21T00:00:00Z --dry-run`,
      description: "How many deliveries of a day are dead"
    },
    {
      command: `${cli} deliveries replay --project demo --installation ins_shop --since 2026-11-20T00:00:00Z --until 2026-11-21T00:00:00Z --status all --pace 10`,
      description: "All of that day, ten a second"
    }
  ])
)

export const list = Command.make(
  "replays",
  { json: Flags.json, project: Flags.project, ...Flags.range },
  Effect.fn(function* ({ json, project, ...range }) {
    const page = yield* listReplays(yield* Flags.projectId(project), range)
    const rows = page.items.map((item) => [
      item.replayId,
      item.installationId,
      item.endReason === null ? item.state : `${item.state} (${item.endReason})`,
      `${item.queued} of ${item.matched}${item.skipped === 0 ? "" : `, ${item.skipped} skipped`}`,
      String(item.pace),
      item.since,
      item.until,
      item.createdAt
    ])
    yield* answerPage(json, page, rows.length === 0 ? "No replays" : table([head, ...rows]))
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("List the replays of a project, the newest first"),
  Command.withExamples([{ command: `${cli} deliveries replays --project demo` }])
)

export const cancel = Command.make(
  "cancel-replay",
  {
    json: Flags.json,
    project: Flags.project,
    replay: Flags.id("replay", "The replay's id (required)")
  },
  Effect.fn(function* ({ json, project, replay }) {
    const cancelled = yield* cancelReplay(yield* Flags.projectId(project), replay)
    const { matched, queued, replayId } = cancelled
    yield* answer(json, cancelled, `Replay ${replayId} is cancelled after ${queued} of ${countOf(matched)}`)
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("Cancel a replay: deliveries that are not queued yet are not sent"),
  Command.withExamples([
    { command: `${cli} deliveries cancel-replay --project demo --replay rpl_0193f0cbd4e57f70819203a4b5c6d7e8` }
  ])
)

const head = ["REPLAY", "INSTALLATION", "STATE", "QUEUED", "PACE", "SINCE", "UNTIL", "CREATED"]
