/** Arbitrary project files. */
import * as fc from "fast-check"
import {
  addressesOn,
  byId,
  channels,
  conversationsOn,
  id,
  installations,
  maybe,
  record,
  segmentsOf,
  templates,
  text,
  named as anyName
} from "./Files.parts.support.ts"
import type { File } from "./Projects.support.ts"

type Deal = Omit<NonNullable<File["deals"]>[number], "id" | "title">

const limit = fc.record({ limit: fc.integer({ min: 1, max: 999 }), windowSeconds: fc.integer({ min: 1, max: 999 }) })
const instant = fc
  .date({ min: new Date("0001-01-02T00:00:00Z"), max: new Date("9999-12-30T00:00:00Z"), noInvalidDate: true })
  .map((date) => date.toISOString().replace("Z", "+05:30"))
const named = fc.uniqueArray(fc.record({ id, name: anyName }), byId)

/** Three pipelines: each keeps one stage, and they share three more, which files remove and move. */
const pipelines = fc
  .record({
    ids: fc.subarray(["p", "q", "r"], { minLength: 2 }),
    shared: fc.uniqueArray(fc.record({ id: fc.constantFrom("1", "2", "3"), of: fc.nat(9), name: anyName }), byId),
    names: fc.array(anyName, { minLength: 3, maxLength: 3 }),
    first: fc.boolean()
  })
  .map(({ first, ids, names, shared }) =>
    ids.map((id, index) => {
      const kept = { id: `${id}0`, name: names[index] ?? id }
      const others = shared.filter(({ of }) => of === index).map(({ id, name }) => ({ id, name }))
      return { id, name: names[index] ?? id, stages: first ? [kept, ...others] : [...others, kept] }
    })
  )

/** Members that are valid together, and rarely any: what is stored of a deal may make them valid. */
const mostly = <T>(valid: fc.Arbitrary<T>, any: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 9, arbitrary: valid }, { weight: 1, arbitrary: any })
const statuses = fc.constantFrom("open" as const, "won" as const, "lost" as const)
const status = mostly<Deal>(
  fc.oneof(
    fc.constant({}),
    fc.constant({ status: "open" }),
    record({ status: fc.constant("won"), closedAt: instant }, ["status"]),
    record({ status: fc.constant("lost"), closedAt: instant, lostReason: maybe(text(500)) }, ["status"])
  ),
  fc.oneof(
    record({ status: statuses, closedAt: maybe(instant), lostReason: maybe(text(500)) }, []),
    fc.record({ status: fc.constant("open" as const), closedAt: instant })
  )
)
const currency = fc.constantFrom("EUR", "JPY")
const money = mostly<Deal>(
  fc.oneof(
    fc.constant({}),
    fc.constant({ amountMinor: null, currency: null }),
    fc.record({ amountMinor: fc.maxSafeNat(), currency })
  ),
  record({ amountMinor: maybe(fc.maxSafeNat()), currency: maybe(currency) }, [])
)
const rating = fc
  .tuple(fc.integer({ min: 1, max: 5 }), fc.constantFrom("customer" as const, "operator" as const), maybe(text(1000)))
  .map(([score, by, comment]) => ({ score, by, comment }))

/** A file whose references are to its own records. What is stored may make it invalid, as do some members of its deals. */
export const file: fc.Arbitrary<File> = fc
  .record({
    members: fc.uniqueArray(
      record({ id, name: anyName, email: maybe(fc.constant("m@example.com")), active: fc.boolean() }, ["id", "name"]),
      byId
    ),
    organizations: fc.uniqueArray(record({ id, name: anyName, archived: fc.boolean() }, ["id", "name"]), byId),
    pipelines,
    loyaltyLevels: named,
    stampOffers: named,
    channels,
    clientIds: fc.uniqueArray(id, { maxLength: 6 }),
    // Few ids, so that a later file that removes a stage often moves the deals in it, too.
    dealIds: fc.subarray(["a", "b", '~"', "__proto__"])
  })
  .chain(({ clientIds, dealIds, ...targets }) => {
    const oneOf = (records: ReadonlyArray<{ readonly id: string }>) =>
      fc.constantFrom(null, ...records.map(({ id }) => id))
    const client = fc.constantFrom(null, ...clientIds)
    const place = fc
      .constantFrom(...targets.pipelines)
      .chain(({ id, stages }) =>
        fc.oneof(
          { weight: 5, arbitrary: fc.constant({ pipelineId: id, stageId: `${id}0` }) },
          record({ pipelineId: fc.constant(id), stageId: fc.constantFrom(...stages.map((stage) => stage.id)) }, [
            "pipelineId"
          ]),
          record(
            { stageId: fc.constantFrom(...targets.pipelines.flatMap(({ stages }) => stages.map(({ id }) => id))) },
            []
          )
        )
      )
    const all = {
      members: fc.constant(targets.members),
      organizations: fc.constant(targets.organizations),
      pipelines: fc.constant(targets.pipelines),
      loyaltyLevels: fc.constant(targets.loyaltyLevels),
      stampOffers: fc.constant(targets.stampOffers),
      channels: fc.constant(targets.channels),
      project: record(
        {
          id: fc.constantFrom("one", "other"),
          name: anyName,
          timeZone: fc.constantFrom("UTC", "Europe/Berlin", "asia/tokyo"),
          contactCapacity: maybe(fc.nat(5)),
          modules: fc.subarray(["crm", "messaging", "campaigns", "integrations", "tickets"] as const),
          entitlements: fc.uniqueArray(text(160), { maxLength: 3 }),
          rateLimits: record({ read: limit, write: limit, messages: limit }, []),
          defaultPipelineId: fc.option(fc.constantFrom(...targets.pipelines.map(({ id }) => id)), {
            nil: null,
            freq: 9
          })
        },
        ["id", "name"]
      ),
      clients: fc.tuple(
        ...clientIds.map((id) =>
          record(
            {
              id: fc.constant(id),
              displayName: text(160),
              firstName: maybe(text(100)),
              lastName: maybe(text(100)),
              email: maybe(fc.constant("c@example.com")),
              phone: maybe(fc.constant("+4915112345678")),
              tags: fc.uniqueArray(text(160), { maxLength: 4 }),
              externalId: maybe(text(100).map((text) => `${text}${id}`)),
              status: fc.constantFrom("active", "archived"),
              organizationId: oneOf(targets.organizations),
              responsibleMemberId: oneOf(targets.members),
              marketingConsent: fc.boolean(),
              suppressed: fc.boolean(),
              mergedIntoClientId: fc.constantFrom(null, ...clientIds.filter((other) => other !== id)),
              createdAt: instant,
              addresses: addressesOn(targets.channels),
              loyalty: maybe(
                record(
                  {
                    cardNumber: maybe(text(160)),
                    levelId: oneOf(targets.loyaltyLevels),
                    balance: fc.nat(2_147_483_647),
                    readyStampOfferIds: fc.subarray(targets.stampOffers.map(({ id }) => id))
                  },
                  []
                )
              )
            },
            ["id", "displayName"]
          )
        )
      ),
      deals: fc.tuple(
        ...dealIds.map((id) =>
          fc
            .tuple(
              record(
                {
                  id: fc.constant(id),
                  title: text(160),
                  clientId: client,
                  organizationId: oneOf(targets.organizations),
                  lifecycle: fc.constantFrom("active", "archived"),
                  expectedCloseDate: maybe(instant.map((at) => at.slice(0, 10))),
                  externalId: maybe(text(100).map((text) => `${text}${id}`)),
                  responsibleMemberId: oneOf(targets.members),
                  createdAt: instant
                },
                ["id", "title"]
              ),
              fc.oneof(fc.constant({}), place, place),
              status,
              money
            )
            .map(([deal, place, status, money]) => ({ ...deal, ...place, ...status, ...money }))
        )
      ),
      tickets: fc.uniqueArray(
        record(
          {
            id,
            subject: text(500),
            status: fc.constantFrom("open", "pending", "resolved", "closed"),
            clientId: client,
            rating: maybe(rating)
          },
          ["id", "subject", "status"]
        ),
        byId
      ),
      conversations: conversationsOn(targets.channels, client),
      segments: segmentsOf(clientIds),
      templates,
      campaigns: named,
      installations,
      tasks: fc.uniqueArray(
        record(
          {
            id,
            title: text(160),
            dealId: fc.constantFrom(null, ...dealIds),
            clientId: client,
            assigneeId: oneOf(targets.members),
            dueAt: maybe(instant),
            completedAt: maybe(instant)
          },
          ["id", "title"]
        ),
        byId
      )
    }
    // Nothing refers to the records of the parts that a file may lack.
    return record(all, [
      "project",
      "members",
      "organizations",
      "pipelines",
      "loyaltyLevels",
      "stampOffers",
      "channels",
      "clients",
      "deals"
    ])
  })
