/**
 * Callers of every mutation, each with its own records, so that the version after each command is known. A ledger has
 * their answers, and is compared with the database at the end.
 */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { operations } from "../../src/api/campaigns/Commands.ts"
import { setTimeout as sleep } from "node:timers/promises"
import { run } from "../cli/Cli.support.ts"
import { eventually } from "../support/Waiting.ts"
import type { Calls } from "./Mix.calls.support.ts"
import { crowd, headerValue, type Project, recipients } from "./Mix.project.support.ts"
import { type Kind, kinds } from "./Providers.support.ts"

export const clientState = (name: string, status: string, version: number) => `${name}, ${status}, version ${version}`
const dealState = (title: string, stage: string, status: string, version: number) =>
  `${title}, ${stage}, ${status}, version ${version}`
const noteState = (body: string, version: number) => `${body}, version ${version}`
const ticketState = (score: number, comment: string, version: number) => `${score}, ${comment}, version ${version}`
const campaignState = (name: string, status: string, version: number) => `${name}, ${status}, version ${version}`
const webhookState = (url: string, version: number) => `${url}, version ${version}`

/** Creates a ledger: the expected states of records by table and id, and the other facts that answers acknowledged. */
export const makeLedger = () => ({
  clients: new Map([
    ["cli_file", clientState("Client of a file", "active", 1)],
    ...[...recipients, ...crowd].map((name) => [`cli_${name}`, clientState(name, "active", 1)] as const)
  ]),
  deals: new Map([["deal_own", dealState("Own", "new", "open", 1)]]),
  notes: new Map<string, string>(),
  tickets: new Map<string, string>(),
  webhooks: new Map<string, string>(),
  campaigns: new Map([
    ["cmp_own", campaignState("Own", "draft", 1)],
    ...kinds.map((kind) => [`cmp_${kind}`, campaignState(kind, "draft", 1)] as const)
  ]),
  /** The names of events. */
  events: new Array<string>(),
  /** Texts of messages, and the ids of their first receipts. */
  messages: new Map<string, string>(),
  /** Titles of tasks whose command succeeded, and of those whose command failed. */
  tasks: { created: new Array<string>(), failed: new Array<string>() },
  /** Secrets of each installation, from the answers. */
  secrets: new Map<string, Set<string>>(),
  campaignOperations: new Set<string>(),
  /** How often the text of a recipient was to be sent by campaigns, each over one kind of provider. */
  campaignTexts: new Map<string, number>()
})
type Ledger = ReturnType<typeof makeLedger>

/** One turn of a caller; turns are counted from 0. */
export type Caller = (n: number) => Promise<unknown>

export interface Scene {
  /** Environment of the operator's commands. */
  readonly env: Readonly<Record<string, string>>
  readonly project: Project
  readonly calls: Calls
  readonly ledger: Ledger
  /** The operations that are called. */
  readonly mutations: ReadonlyArray<string>
}

const eventName = (type: string, id: string, version: number) => `${type} of ${id}, version ${version}`

const clients = ({ ledger, calls }: Scene): Caller => {
  const patch = (clientId: string, json: object, version: number, changed = true) =>
    calls.command("patchClient", { params: { clientId }, json }, { version, changed })
  return async (n) => {
    const { resourceId: id } = await calls.command(
      "createClient",
      { json: { displayName: `Client ${n}` } },
      { version: 1 }
    )
    const displayName = `Client ${n} of the mix`
    await patch(id, { displayName }, 2)
    await patch(id, { displayName }, 2, false)
    await patch(id, { status: "archived" }, 3)
    if (n % 2 === 0) await patch(id, { status: "active" }, 4)
    ledger.clients.set(
      id,
      n % 2 === 0 ? clientState(displayName, "active", 4) : clientState(displayName, "archived", 3)
    )
  }
}

const deals =
  ({ ledger, calls }: Scene): Caller =>
  async (n) => {
    const title = `Deal ${n}`
    const { resourceId: id } = await calls.command("createDeal", { json: { title } }, { version: 1 })
    const patch = (json: object, version: number) =>
      calls.command("patchDeal", { params: { dealId: id }, json }, { version })
    await patch({ stageId: "agreed" }, 2)
    await patch({ status: "won" }, 3)
    await patch({ status: "open", amountMinor: n, currency: "EUR" }, 4)
    ledger.deals.set(id, dealState(title, "agreed", "open", 4))
    ledger.events.push(
      eventName("crm.deal.created.v1", id, 1),
      eventName("crm.deal.stage_changed.v1", id, 2),
      ...[2, 3, 4].map((version) => eventName("crm.deal.updated.v1", id, version))
    )
  }

/** Creates clients and deals by their external ids, and changes them; gives the clients addresses, and erases every other one. */
const upserts =
  ({ ledger, calls }: Scene): Caller =>
  async (n) => {
    const params = { externalId: `shop-${n}` }
    const displayName = `Upserted ${n}`
    const { resourceId: clientId } = await calls.command(
      "upsertClient",
      { params, json: { displayName: `New ${n}` } },
      { version: 1 }
    )
    await calls.command("upsertClient", { params, json: { displayName } }, { version: 2 })
    const addresses = [{ channelId: "http", address: `client-${n}` }]
    await calls.command("putClientAddresses", { params: { clientId }, json: { addresses } }, { version: 3 })
    await calls.command(
      "putClientAddresses",
      { params: { clientId }, json: { addresses } },
      { version: 3, changed: false }
    )
    const title = `Upserted ${n}`
    const deal = { title, clientId }
    const { resourceId: dealId } = await calls.command("upsertDeal", { params, json: deal }, { version: 1 })
    await calls.command("upsertDeal", { params, json: deal }, { version: 1, changed: false })
    ledger.events.push(eventName("crm.deal.created.v1", dealId, 1))
    if (n % 2 === 0) {
      ledger.clients.set(clientId, clientState(displayName, "active", 3))
      ledger.deals.set(dealId, dealState(title, "new", "open", 1))
    } else {
      await calls.command("eraseClient", { params: { clientId } }, { version: 3 })
      ledger.deals.set(dealId, dealState(title, "new", "open", 2))
      ledger.events.push(eventName("crm.deal.updated.v1", dealId, 2))
    }
  }

/** Number of items of each batch. */
export const batchSize = 25

/** Creates clients and deals by batches, and changes them so. */
const batches =
  ({ ledger, calls }: Scene): Caller =>
  async (n) => {
    const items = (member: string, name: string) =>
      Array.from({ length: batchSize }, (_, index) => ({
        externalId: `batch-${n}-${index}`,
        [member]: `${name} ${index} of ${n}.`
      }))
    await calls.batch("batchClients", items("displayName", "New"), { created: true })
    const clientIds = await calls.batch("batchClients", items("displayName", "Batched"), { created: false })
    for (const [index, id] of clientIds.entries()) {
      ledger.clients.set(id, clientState(`Batched ${index} of ${n}.`, "active", 2))
    }
    const dealIds = await calls.batch("batchDeals", items("title", "Batched"), { created: true })
    for (const [index, id] of dealIds.entries()) {
      ledger.deals.set(id, dealState(`Batched ${index} of ${n}.`, "new", "open", 1))
      ledger.events.push(eventName("crm.deal.created.v1", id, 1))
    }
  }

const drafts =
  ({ ledger, calls }: Scene): Caller =>
  async (n) => {
    const name = `Draft ${n}`
    const { resourceId: id } = await calls.command("createCampaign", { json: { name } }, { version: 1 })
    ledger.campaigns.set(id, campaignState(name, "draft", 1))
  }

const notes = ({ ledger, calls }: Scene): Caller => {
  const dealId = "deal_own"
  return async (n) => {
    const body = `Note ${n}`
    const { resourceId: noteId } = await calls.command(
      "createNote",
      { params: { dealId }, json: { body } },
      { version: 1 }
    )
    const params = { dealId, noteId }
    await calls.command("patchNote", { params, json: { body: `${body}, read`, expectedVersion: 1 } }, { version: 2 })
    if (n % 2 === 0) ledger.notes.set(noteId, noteState(`${body}, read`, 2))
    else await calls.command("deleteNote", { params, query: "?expectedVersion=2" }, { version: 2 })
  }
}

const tickets = ({ ledger, calls }: Scene): Caller => {
  const ticketId = "tic_own"
  return async (n) => {
    const [score, comment] = [1 + (n % 5), `Rating ${n}`]
    await calls.command("rateTicket", { params: { ticketId }, json: { score, comment } }, { version: n + 2 })
    ledger.tickets.set(ticketId, ticketState(score, comment, n + 2))
  }
}

/** Returns the commands on the webhook of an installation; each uses the version that the previous one left. */
const webhookOf = ({ ledger, calls, mutations, project }: Scene, installationId: string) => {
  // The version before refuses them.
  const headers = mutations.includes("upsertClient") ? { headers: { authorization: headerValue } } : {}
  const secrets = ledger.secrets.get(installationId) ?? new Set()
  ledger.secrets.set(installationId, secrets)
  let version: number | null = null
  let endpointUrl = ""
  /** Returns whether the answer had the secret, which only the first answer has. */
  const send = async (name: string, json: () => object) => {
    const ask = { params: { installationId }, json: { ...json(), expectedVersion: version } }
    version = (version ?? 0) + 1
    const { signingSecret } = await calls.command(name, ask, { version })
    ledger.webhooks.set(installationId, webhookState(endpointUrl, version))
    if (signingSecret !== undefined) secrets.add(signingSecret)
    return signingSecret !== undefined
  }
  let before: Promise<unknown> = Promise.resolve()
  /** Sends a command after those that other callers have begun. */
  const command = (name: string, json: () => object = () => ({})) => {
    const sent = before.then(() => send(name, json))
    before = sent.catch(() => undefined)
    return sent
  }
  const configure = () =>
    command("configureWebhook", () => {
      endpointUrl = project.urlOf(installationId, (version ?? 0) + 1)
      return { endpointUrl, eventTypes: project.eventTypes, ...headers }
    })
  return {
    configure,
    rotate: async () => {
      // A secret whose answer is lost is in the answer to the next command on the webhook.
      if (await command("rotateWebhookSecret")) return
      while (!(await configure()));
    }
  }
}

type Webhook = ReturnType<typeof webhookOf>

const webhooks =
  (webhook: Webhook): Caller =>
  async (n) => {
    if (n % 3 === 2) await webhook.configure()
    else await webhook.rotate()
  }

/** Retries dead deliveries, and reconfigures the webhooks whose endpoints are parked, as poison parks any endpoint. */
const retries =
  ({ calls, project }: Scene, configured: Readonly<Record<string, Webhook>>): Caller =>
  async () => {
    const { dead, parked } = await project.failures()
    for (const installation of parked) await configured[installation]?.configure()
    for (const { id: deliveryId, installation: installationId } of dead) {
      project.accept(deliveryId)
      const { resourceId } = await calls.command("retryDelivery", { params: { installationId, deliveryId } })
      assert.strictEqual(resourceId, deliveryId)
    }
  }

const messages =
  ({ ledger, calls, project }: Scene): Caller =>
  async (n) => {
    for (const kind of kinds) {
      const text = `Message ${n} over ${kind}`
      const answer = await project.sendMessage(calls, kind, text)
      calls.note("sendMessage", answer.answer)
      ledger.messages.set(text, answer.messageId)
    }
  }

/** Returns the commands on campaigns. */
const campaignCommands =
  ({ ledger, calls }: Scene) =>
  (campaignId: string, operation: (typeof operations)[number], version: number, json: object = {}) => {
    ledger.campaignOperations.add(operation)
    return calls.command("patchCampaign", { params: { campaignId }, json: { operation, ...json } }, { version })
  }

const route = (of: Kind) => ({ templateId: of, templateVersion: 1, channelId: of })

const audienceOf = (kind: Kind, tag: "campaign" | "crowd") => ({
  filter: { contactStatus: "active", providerTypes: [kind], requiredTags: [tag], stageIds: [] }
})

/** Notes the sends of a started campaign. */
const noteStarted = ({ ledger }: Scene, kind: Kind, names: ReadonlyArray<string>) => {
  for (const text of names.map((name) => `${kind} to ${name}`)) {
    ledger.campaignTexts.set(text, (ledger.campaignTexts.get(text) ?? 0) + 1)
  }
}

/** Starts a campaign of 200 recipients over each kind of provider. */
export const startCrowd = async (scene: Scene, sendsPerMinute: number) => {
  const command = campaignCommands(scene)
  for (const kind of kinds) {
    const id = `cmp_${kind}`
    await command(id, "set_primary_route", 2, route(kind))
    await command(id, "freeze_audience", 3, audienceOf(kind, "crowd"))
    await command(id, "schedule", 4, { scheduledForLocal: null, sendsPerMinute })
    noteStarted(scene, kind, crowd)
    // The campaign starts and completes, which are two more versions.
    scene.ledger.campaigns.set(id, campaignState(kind, "completed", 6))
  }
}

const campaigns = (scene: Scene): Caller => {
  const command = campaignCommands(scene)
  return async (n) => {
    const [kind = "http", other = "telegram"] = n % 4 < 2 ? kinds : kinds.toReversed()
    const { resourceId: id } = await command("cmp_own", "duplicate", 1)
    const name = `Campaign ${n}`
    await command(id, "rename", 2, { name, expectedVersion: 1 })
    await command(id, "bind_template", 3, { templateId: other, templateVersion: 1 })
    await command(id, "bind_sender", 4, { channelId: other })
    await command(id, "set_primary_route", 5, route(kind))
    await command(id, "set_fallback_route", 6, route(other))
    await command(id, "remove_fallback_route", 7)
    await command(id, "freeze_audience", 8, audienceOf(kind, "campaign"))
    await command(id, "schedule", 9, { scheduledForLocal: "2199-01-01T00:00", sendsPerMinute: 600 })
    await command(id, "pause", 10)
    await command(id, "resume", 11)
    if (n % 2 === 0) {
      await command(id, "schedule", 12, { scheduledForLocal: null, sendsPerMinute: 6_000 })
      noteStarted(scene, kind, recipients)
      scene.ledger.campaigns.set(id, campaignState(name, "completed", 14))
    } else {
      await command(id, "cancel", 12)
      if (n % 4 === 1) await command(id, "delete", 12, { expectedVersion: 12 })
      else scene.ledger.campaigns.set(id, campaignState(name, "cancelled", 12))
    }
  }
}

/** Runs an operator's commands. They have no keys: a failed one may have been applied, so only idempotent ones are repeated. */
const operator = ({ ledger, env, project }: Scene): Caller => {
  const command = (stdin: string, ...args: ReadonlyArray<string>) =>
    Effect.runPromise(run([...args, "--json"], { env, stdin }))
  return async (n) => {
    const title = `Task ${n}`
    const { status } = await command("", "task", "create", "--project", project.id, "--title", title)
    ledger.tasks[status === 0 ? "created" : "failed"].push(title)
    const displayName = `Client of file ${n}`
    const file = JSON.stringify({ ...project.file, clients: [{ id: "cli_file", displayName }] })
    await eventually(async () => {
      const { status, stderr } = await command(file, "project", "apply", "-")
      assert.strictEqual(status, 0, stderr)
    })
    ledger.clients.set("cli_file", clientState(displayName, "active", n + 2))
  }
}

/** Returns callers of every mutation; first configures the webhooks, so that every event has deliveries. */
export const openCallers = async (scene: Scene) => {
  const [steady, failing] = [webhookOf(scene, "steady"), webhookOf(scene, "failing")]
  while (!(await steady.configure()));
  while (!(await failing.configure()));
  return {
    retries: retries(scene, { steady, failing }),
    operator: operator(scene),
    others: [
      clients(scene),
      deals(scene),
      notes(scene),
      tickets(scene),
      webhooks(steady),
      messages(scene),
      campaigns(scene),
      ...(scene.mutations.includes("upsertClient") ? [upserts(scene), drafts(scene)] : []),
      ...(scene.mutations.includes("batchClients") ? [batches(scene)] : [])
    ]
  }
}

/** Runs the turns of callers until they are stopped; a started turn is finished. The first failure ends the test. */
export const runCallers = () => {
  const { promise: failed, reject } = Promise.withResolvers<never>()
  failed.catch(() => undefined)
  return {
    failed,
    run: (caller: Caller, pause: number) => {
      let open = true
      const turns = async () => {
        for (let n = 0; open; n++) {
          await caller(n)
          await sleep(pause)
        }
      }
      const over = turns().catch(reject)
      return () => {
        open = false
        return over
      }
    }
  }
}
