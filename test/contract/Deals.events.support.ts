/** Projects with webhooks for deals, and their events (contract §10). */
import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { DealShape } from "../support/ContractAnswers.ts"
import { eventsOf, subscribe } from "../support/Events.ts"
import type { EventType } from "../../src/api/integrations/Events.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { open } from "./Deals.support.ts"

export const created = "crm.deal.created.v1" as const
export const updated = "crm.deal.updated.v1" as const
export const stageChanged = "crm.deal.stage_changed.v1" as const

const DealData = Schema.Struct({
  deal: DealShape,
  previousStageId: Schema.optionalKey(Schema.String),
  previous: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown))
})

interface ReceivedEvent {
  readonly type: EventType
  readonly data: typeof DealData.Type
}

/** Creates a project with a webhook for all events; `received` reads the events as types and data. */
export const openSubscribed = Effect.fnUntraced(function* (parts?: Parts) {
  const calls = yield* open(parts)
  const { projectId, server } = calls
  const { sql } = server
  yield* subscribe(sql, projectId, "shop")
  const received = Effect.map(eventsOf(sql, projectId), (events) =>
    events.map(({ data, type }): ReceivedEvent => ({ type, data: Schema.decodeUnknownSync(DealData)(data) }))
  )
  return { ...calls, sql, received }
})

/** Returns the events of the patches between successive records of a deal. */
export const eventsOfChanges = ([first, ...rest]: ReadonlyArray<DealShape>): ReadonlyArray<ReceivedEvent> => {
  let before = first ?? assert.fail("no record")
  return rest.flatMap((deal): ReadonlyArray<ReceivedEvent> => {
    const previousStageId = before.stageId
    const previous = previousOf(before, deal)
    before = deal
    return [
      { type: updated, data: { deal, previous } },
      ...(deal.stageId === previousStageId ? [] : [{ type: stageChanged, data: { deal, previousStageId, previous } }])
    ]
  })
}

/** Returns the members that differ, with the earlier values; without those that every change alters. */
export const previousOf = (before: object, after: object): Readonly<Record<string, unknown>> => {
  const now = new Map<string, unknown>(Object.entries(after))
  return Object.fromEntries(
    Object.entries(before).filter(
      ([member, value]) =>
        member !== "version" && member !== "updatedAt" && JSON.stringify(now.get(member)) !== JSON.stringify(value)
    )
  )
}

/** A server without the fiber that sends deliveries, so that they stay unchanged. */
export const api = TestServer.layer({}, "api")
