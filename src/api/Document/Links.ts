/** Links of the OpenAPI document: from the answers that have an id to the operations that take it. */
import { Record } from "effect"

type Parameters = Readonly<Record<string, string>>

const created = "$response.body#/resourceId"

/** By operation: the operations that its answer leads to, with their parameters. */
const targets: Readonly<Record<string, Readonly<Record<string, Parameters>>>> = {
  createClient: {
    getClient: { clientId: created },
    patchClient: { clientId: created },
    eraseClient: { clientId: created },
    putClientAddresses: { clientId: created }
  },
  createDeal: { getDeal: { dealId: created }, patchDeal: { dealId: created }, createNote: { dealId: created } },
  createNote: {
    patchNote: { dealId: "$request.path.dealId", noteId: created },
    deleteNote: { dealId: "$request.path.dealId", noteId: created }
  },
  listInstallations: Object.fromEntries(
    ["getWebhook", "configureWebhook", "testWebhook", "listDeliveries", "replayDeliveries", "previewImport"].map(
      (name) => [name, { installationId: "$response.body#/items/0/id" }]
    )
  ),
  listDeliveries: {
    getDelivery: {
      installationId: "$request.path.installationId",
      deliveryId: "$response.body#/items/0/id"
    }
  },
  replayDeliveries: { getReplay: { installationId: "$request.path.installationId", replayId: created } },
  listCampaigns: { getCampaign: { campaignId: "$response.body#/items/0/id" } },
  sendMessage: {
    getMessage: {
      conversationId: "$request.path.conversationId",
      messageId: "$response.body#/messageId"
    }
  }
}

/** Returns the links of an operation's answer. */
export const linksOf = (operation: string): object =>
  operation in targets
    ? { links: Record.map(targets[operation] ?? {}, (parameters, operationId) => ({ operationId, parameters })) }
    : {}
