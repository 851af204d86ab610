/** Every list of the API: the table of the walk over pages. */
import { Effect } from "effect"
import { campaignPageOf, segmentPageOf, templatePageOf } from "../support/CampaignAnswers.ts"
import {
  dealPageOf,
  memberPageOf,
  notePageOf,
  organizationPageOf,
  pageOf,
  pipelinePageOf,
  ticketPageOf
} from "../support/ContractAnswers.ts"
import { type Answer, send } from "../support/ContractHttp.ts"
import { put, withDeals } from "../support/Rows.ts"
import { deliveryPageOf, installationPageOf } from "../support/IntegrationAnswers.ts"
import { conversationPageOf, sourcePageOf } from "../support/MessagingAnswers.ts"
import { walkPages } from "../support/Pages.ts"
import { type Parts, type Seeded, TestServer } from "../support/TestServer.ts"
import { keyIdOf } from "./Notes.support.ts"

/** A record of a list: its id and the time that orders it. */
export interface Listed {
  readonly id: string
  readonly createdAt: string
}

interface Page {
  readonly items: ReadonlyArray<{ readonly id: string }>
  readonly nextCursor: string | null
  readonly link: string | ReadonlyArray<string> | undefined
}

export interface List {
  readonly path: string
  readonly pageOf: (answer: Answer) => Page
  /** The records that a project needs for the list. */
  readonly parts?: Parts
  /** Filters by their meaning: those of one group mean the same. The first group is the default. */
  readonly filters: ReadonlyArray<ReadonlyArray<string>>
  /** Its order: by age unless another is given. */
  readonly order?: "by id" | "newest id first"
  /** The table of its records, with a column of text that may change, and that of the time that orders them (null: none does). */
  readonly table: readonly [name: string, text: string, time?: string | null]
  /** Whether its answers have none of the texts, and ids of another form than those of tests. */
  readonly isShort?: true
  /** The columns that a record has beside these; the default filter shows it. */
  readonly columns?: (record: Listed, token: string) => object
}

const developer = "/api/v1/developer"

/** The deal whose notes are listed, and another. */
export const notedDeals = withDeals("a/b?#&", "other")

/** Lists by operation. The walk fails if one is missing here. */
export const lists: Readonly<Record<string, List>> = {
  listClients: {
    path: `${developer}/crm/clients`,
    table: ["clients", "display_name"],
    pageOf,
    filters: [
      ["", "status=all"],
      ["status=active"],
      ["status=archived"],
      ["email=ADA%40example.com", "email=ada%40Example.com&status=all"],
      ["updatedSince=2000-01-01T00:00:00Z", "updatedSince=2000-01-01T01:00:00.000%2B01:00"],
      ["updatedSince=2000-01-01T00:00:01Z"]
    ]
  },
  listDeals: {
    path: `${developer}/crm/deals`,
    table: ["deals", "title"],
    pageOf: dealPageOf,
    parts: withDeals(),
    filters: [
      ["", "lifecycle=active", "status=all", "lifecycle=active&status=all"],
      ["lifecycle=all", "lifecycle=all&status=all"],
      ["lifecycle=archived", "lifecycle=archived&status=all"],
      ["status=open", "lifecycle=active&status=open"],
      ["status=won"],
      ["lifecycle=all&status=open"],
      ["stageId=new", "stageId=new&lifecycle=active"],
      ["stageId=new&updatedSince=2000-01-01T00:00:00Z"],
      ["updatedSince=2000-01-01T00:00:00Z"]
    ],
    columns: () => ({ pipeline_id: "sales", stage_id: "new" })
  },
  listMembers: {
    path: `${developer}/crm/members`,
    order: "by id",
    table: ["members", "name", null],
    pageOf: memberPageOf,
    filters: [[""]]
  },
  listOrganizations: {
    path: `${developer}/crm/organizations`,
    order: "by id",
    table: ["organizations", "name", null],
    pageOf: organizationPageOf,
    filters: [[""]]
  },
  listTickets: {
    path: `${developer}/crm/tickets`,
    order: "by id",
    table: ["tickets", "subject", null],
    pageOf: ticketPageOf,
    parts: { clients: [{ id: "asking", displayName: "Asking" }] },
    filters: [
      ["", "status=all"],
      ["status=resolved"],
      ["clientId=asking", "status=all&clientId=asking"],
      ["status=resolved&clientId=asking"],
      ["clientId=other"]
    ],
    columns: () => ({ client_id: "asking" })
  },
  listConversations: {
    path: `${developer}/messaging/conversations`,
    order: "by id",
    isShort: true,
    table: ["conversations", "address", null],
    pageOf: conversationPageOf,
    parts: {
      clients: [{ id: "asking", displayName: "Asking" }],
      channels: [{ id: "chan", providerType: "sandbox", displayName: "Channel" }]
    },
    filters: [[""], ["clientId=asking"], ["clientId=other"], ["sourceId=other"], ["clientId=asking&sourceId=other"]],
    columns: () => ({ client_id: "asking", channel_id: "chan" })
  },
  listTemplates: {
    path: `${developer}/campaigns/templates`,
    order: "by id",
    table: ["templates", "body", null],
    pageOf: templatePageOf,
    filters: [[""]]
  },
  listPipelines: {
    path: `${developer}/crm/pipelines`,
    order: "by id",
    table: ["pipelines", "name", null],
    pageOf: pipelinePageOf,
    filters: [[""]]
  },
  listNotes: {
    path: `${developer}/crm/deals/a%2Fb%3F%23&/notes`,
    table: ["notes", "body"],
    pageOf: notePageOf,
    parts: notedDeals,
    filters: [[""]],
    columns: (_, token) => ({ deal_id: "a/b?#&", author_key_id: keyIdOf(token) })
  },
  listSources: {
    path: `${developer}/messaging/sources`,
    table: ["channels", "display_name", "connected_at"],
    pageOf: sourcePageOf,
    filters: [[""]],
    columns: ({ id }) => ({ source_id: id })
  },
  listInstallations: {
    path: `${developer}/integrations`,
    order: "by id",
    table: ["installations", "name", null],
    pageOf: installationPageOf,
    filters: [[""]]
  },
  listDeliveries: {
    path: `${developer}/integrations/ins_listed/outbound-webhook/deliveries`,
    order: "newest id first",
    table: ["deliveries", "dead_code"],
    pageOf: deliveryPageOf,
    parts: { installations: [{ id: "ins_listed", name: "Listed" }] },
    filters: [
      ["", "status=all"],
      ["status=dead"],
      ["status=pending"],
      ["status=delivered"],
      ["eventType=crm.deal.created.v1", "status=all&eventType=crm.deal.created.v1"],
      ["status=dead&eventType=crm.deal.created.v1"],
      ["eventType=crm.task.created.v1"]
    ],
    columns: ({ createdAt, id }) => ({
      installation_id: "ins_listed",
      event_id: id,
      event_type: "crm.deal.created.v1",
      status: "dead",
      finished_at: createdAt
    })
  },
  listCampaigns: {
    path: `${developer}/campaigns`,
    table: ["campaigns", "name"],
    pageOf: campaignPageOf,
    filters: [["", "status=all"], ["status=draft"], ["status=running"]]
  },
  listSegments: {
    path: `${developer}/campaigns/audience-segments`,
    table: ["segments", "name"],
    pageOf: segmentPageOf,
    filters: [[""]]
  }
}

/** Returns the instant this many milliseconds after the start of 2026. */
export const at = (millis: number) => new Date(Date.UTC(2026, 0, 1) + millis).toISOString()

/** Returns `count` records; each `tied` of them share an instant. */
export const many = (count: number, tied = 3): ReadonlyArray<Listed> =>
  Array.from({ length: count }, (_, index) => ({
    id: `r${String((index * 31) % count).padStart(4, "0")}`,
    createdAt: at(Math.floor(index / tied))
  }))

/** Returns the ids in the order of every list: newest first, then by the bytes of the id, the greatest first. */
export const inOrder = (records: ReadonlyArray<{ readonly id: string; readonly createdAt?: string }>) =>
  records
    .toSorted((left, right) => {
      const [a = "", b = ""] = [left.createdAt, right.createdAt]
      return a === b ? Buffer.compare(Buffer.from(right.id), Buffer.from(left.id)) : a < b ? 1 : -1
    })
    .map(({ id }) => id)

/** Returns the ids in the order of a list. */
export const orderOf =
  ({ order }: List) =>
  (records: ReadonlyArray<Listed>): ReadonlyArray<string> => {
    const newestFirst = inOrder(order === undefined ? records : records.map(({ id }) => ({ id })))
    return order === "by id" ? newestFirst.toReversed() : newestFirst
  }

/** Returns calls on a list of a project, with one of its tokens. */
export const callsOf = (
  { columns, isShort, pageOf, path, table }: List,
  server: TestServer["Service"],
  project: Seeded
) => {
  const { projectId, token } = project
  const { sql } = server
  const [name, text, time = "created_at"] = table
  const ask = (query = "") => {
    const request = { path: query === "" ? path : `${path}?${query}`, token }
    return isShort === true ? send(server.url, request) : server.send(request)
  }
  const page = (query = "") => Effect.map(ask(query), pageOf)
  return {
    server,
    projectId,
    token,
    ask,
    page,
    ids: (query = "") => Effect.map(page(query), ({ items }) => items.map(({ id }) => id)),
    /** Returns the ids of every page, from the first to the last. */
    walk: (query: string, between?: (page: number) => Effect.Effect<unknown>) => walkPages(page, query, between),
    insert: Effect.fnUntraced(function* (records: ReadonlyArray<Listed>) {
      const events = records.map(({ id }) => ({ project_id: projectId, id }))
      if (name === "deliveries") yield* put(sql, "events", ...events)
      const rows = records.map((record) => ({
        project_id: projectId,
        id: record.id,
        ...(time === null ? {} : { [time]: record.createdAt }),
        ...columns?.(record, token)
      }))
      yield* put(sql, name, ...rows)
    }),
    change: (id: string) =>
      Effect.orDie(
        sql`UPDATE ${sql(name)} SET ${sql(text)} = 'Changed' WHERE project_id = ${projectId} AND id = ${id}`
      ),
    /** Gives all records a text of this length, which takes six times as many bytes of JSON. */
    lengthen: (length: number) =>
      Effect.orDie(
        sql`UPDATE ${sql(name)} SET ${sql(text)} = repeat(chr(1), ${length}::int) WHERE project_id = ${projectId}`
      ),
    /** Gives a record another time, as a project file can. */
    move: (id: string, to: string) =>
      time === null
        ? Effect.void
        : Effect.asVoid(
            Effect.orDie(
              sql`UPDATE ${sql(name)} SET ${sql(time)} = ${to}::timestamptz WHERE project_id = ${projectId} AND id = ${id}`
            )
          ),
    remove: (id: string) => Effect.orDie(sql`DELETE FROM ${sql(name)} WHERE project_id = ${projectId} AND id = ${id}`)
  }
}

/** Creates a project with these records in the list. */
export const openList = Effect.fnUntraced(function* (list: List, records: ReadonlyArray<Listed> = []) {
  const server = yield* TestServer
  const calls = callsOf(list, server, yield* server.seed(list.parts))
  if (records.length > 0) yield* calls.insert(records)
  return calls
})
