/**
 * Components of the OpenAPI document. What several operations have alike, above all their problems, is written once in
 * `components`, and referred to. Otherwise the document would have twice its size, and generators would make a type of each.
 */
import { Predicate, Record } from "effect"
import type { OpenApi } from "effect/http-api"

interface Use {
  readonly component: object
  readonly origin: string
  readonly isShared: boolean
}

/** What may become a component: its name, where it stands, and how something else takes its place there. */
interface Part {
  readonly name: string
  readonly origin: string
  readonly component: object
  readonly replace: (by: object) => void
}

/**
 * The components of a kind. Each component that occurs more than once gets a key. The key is its name; if several components have
 * this name, the place where it occurs first (`origin`) is added.
 */
const makePool = (kind: string) => {
  const found = new Map<string, Map<string, Use>>()
  const keyOf = (name: string, { origin }: Use) => (found.get(name)?.size === 1 ? name : `${name}.${origin}`)
  return {
    add: (name: string, origin: string, component: object): void => {
      const named = found.get(name) ?? new Map<string, Use>()
      const text = JSON.stringify(component)
      named.set(text, { origin, component, ...named.get(text), isShared: named.has(text) })
      found.set(name, named)
    },
    refer: (name: string, component: object): object => {
      const use = found.get(name)?.get(JSON.stringify(component))
      return use?.isShared === true ? { $ref: `#/components/${kind}/${keyOf(name, use)}` } : component
    },
    shared: () =>
      Object.fromEntries(
        [...found].flatMap(([name, named]) =>
          [...named.values()].filter(({ isShared }) => isShared).map((use) => [keyOf(name, use), use.component])
        )
      )
  }
}

/** Returns the examples of each media type of a body, by name. */
export const examplesOf = ({
  content = {}
}: {
  readonly content?: OpenApi.OpenApiSpecContent
}): ReadonlyArray<Readonly<Record<string, Example>>> =>
  Object.values(content).flatMap((media) =>
    Predicate.hasProperty(media, "examples") && areExamples(media.examples) ? [media.examples] : []
  )

interface Example {
  readonly value: unknown
}

const areExamples = (value: unknown): value is Readonly<Record<string, Example>> =>
  Predicate.isObject(value) && Object.values(value).every((example) => Predicate.hasProperty(example, "value"))

/** Returns the document with its components. A part of an answer is a component before the answer is. */
export const withComponents = (given: OpenApi.OpenAPISpec): OpenApi.OpenAPISpec => {
  const document = structuredClone(given)
  const operations = Object.values(document.paths).flatMap((path) =>
    Object.values(path).filter((operation) => "responses" in operation)
  )
  const share = (kind: string, partsOf: (operation: OpenApi.OpenAPISpecOperation) => ReadonlyArray<Part>) => {
    const pool = makePool(kind)
    const parts = operations.flatMap(partsOf)
    for (const { component, name, origin } of parts) pool.add(name, origin, component)
    for (const { component, name, replace } of parts) replace(pool.refer(name, component))
    Object.assign(document.components, { [kind]: pool.shared() })
  }
  const entriesOf = (record: Readonly<Record<string, object>>, origin: string, prefix = ""): ReadonlyArray<Part> =>
    Object.entries(record).map(([name, component]) => ({
      name: `${prefix}${name}`,
      origin,
      component,
      replace: (by) => Object.assign(record, { [name]: by })
    }))

  share("headers", ({ responses }) =>
    Object.entries(responses).flatMap(([status, { headers = {} }]) => entriesOf(headers, status))
  )
  share("examples", ({ operationId, responses }) =>
    Object.values(responses).flatMap((response) =>
      examplesOf(response).flatMap((examples) => entriesOf(examples, operationId))
    )
  )
  share("responses", ({ operationId, responses }) => entriesOf(responses, operationId, "Answer"))
  share("parameters", ({ operationId, parameters }) =>
    parameters.map((component, at) => ({
      name: component.name,
      origin: operationId,
      component,
      replace: (by) => Object.assign(parameters, { [at]: by })
    }))
  )
  return document
}

const created = "$response.body#/resourceId"
const first = "$response.body#/items/0/id"
const deal = "$request.path.dealId"
const installation = "$request.path.installationId"
const conversation = "$request.path.conversationId"

/** Links to operations, which get the same parameters. */
const to = (parameters: Readonly<Record<string, string>>, ...operations: ReadonlyArray<string>) =>
  Object.fromEntries(operations.map((operationId) => [operationId, { operationId, parameters }]))

const campaignOperations = ["getCampaign", "getCampaignAudience", "patchCampaign"] as const

/** The links of the answers of an operation. */
const links: Readonly<Record<string, ReturnType<typeof to>>> = {
  createClient: to(
    { clientId: created },
    "getClient",
    "patchClient",
    "eraseClient",
    "getClientAddresses",
    "putClientAddresses"
  ),
  createDeal: to({ dealId: created }, "getDeal", "patchDeal", "listNotes", "createNote"),
  createNote: to({ dealId: deal, noteId: created }, "patchNote", "deleteNote"),
  listTickets: to({ ticketId: first }, "rateTicket"),
  listConversations: to({ conversationId: first }, "getConversationSource", "sendMessage"),
  sendMessage: to({ conversationId: conversation, messageId: "$response.body#/messageId" }, "getMessage"),
  createCampaign: to({ campaignId: created }, ...campaignOperations),
  listCampaigns: to({ campaignId: first }, ...campaignOperations),
  listInstallations: to(
    { installationId: first },
    "getWebhook",
    "configureWebhook",
    "rotateWebhookSecret",
    "testWebhook",
    "listDeliveries",
    "replayDeliveries",
    "previewImport"
  ),
  listDeliveries: to({ installationId: installation, deliveryId: first }, "getDelivery", "retryDelivery"),
  replayDeliveries: to({ installationId: installation, replayId: created }, "getReplay")
}

/** Returns the links of an operation's answer. */
export const linksOf = (operation: string): object => (operation in links ? { links: links[operation] } : {})
