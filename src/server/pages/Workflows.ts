/**
 * The workflows of `/arazzo.json`: the README's first requests, as steps on the records of the demo project. A workflow can be
 * run again: its idempotency keys stay the same, so each command gets its first answer. After a key has expired, a run creates
 * another record. The key of a command on a created record contains the record's id, so no key is used for two records.
 */
import type * as HttpApi from "effect/http-api/HttpApi"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import type { Api } from "../../api/Api.ts"

type Groups = typeof Api extends HttpApi.HttpApi<string, infer Groups> ? Groups : never

export type OperationName = HttpApiEndpoint.Identifier<HttpApiGroup.Endpoints<Groups>>

/** Values by name. A value may be a runtime expression or contain one (Arazzo 1.0, section 4.7). */
type Values = Readonly<Record<string, string | number>>

/** The default of `stepId` is the name of the operation. */
export interface Step {
  readonly operation: OperationName
  readonly stepId?: string
  readonly description: string
  readonly path?: Values
  readonly query?: Values
  readonly key?: string
  /** The body of a mutation. The default is the operation's example. */
  readonly body?: object
  /** Replaces members of the operation's example. */
  readonly change?: object
  /** Statuses after which the workflow continues. The default is the success status of the operation. */
  readonly statuses?: ReadonlyArray<number>
  /** Conditions that an answer must also meet before the workflow continues. */
  readonly conditions?: ReadonlyArray<string>
  readonly outputs?: Readonly<Record<string, string>>
}

export interface Workflow {
  readonly workflowId: string
  readonly summary: string
  readonly description: string
  readonly steps: ReadonlyArray<Step>
  readonly outputs: Readonly<Record<string, string>>
}

const resourceId = "$response.body#/resourceId"

const firstDeal: Workflow = {
  workflowId: "first-deal",
  summary: "A client, and a deal with it",
  description: "Creates a client and a deal, and finds the deal among the open ones.",
  steps: [
    { operation: "listClients", description: "Lists the two newest clients.", query: { limit: 2 } },
    {
      operation: "createClient",
      description: "Creates a client. The same key creates it once.",
      key: "arazzo-client",
      outputs: { clientId: resourceId }
    },
    {
      operation: "getClient",
      description: "Reads the client.",
      path: { clientId: "$steps.createClient.outputs.clientId" },
      conditions: ["$response.body#/id == $steps.createClient.outputs.clientId"]
    },
    {
      operation: "createDeal",
      description: "Creates a deal with the client, on the first stage of the project's default pipeline.",
      key: "{$steps.createClient.outputs.clientId}-deal",
      change: { clientId: "$steps.createClient.outputs.clientId" },
      outputs: { dealId: resourceId }
    },
    {
      operation: "getDeal",
      description: "Reads the deal. The answer's ETag is its version.",
      path: { dealId: "$steps.createDeal.outputs.dealId" },
      conditions: ["$response.body#/clientId == $steps.createClient.outputs.clientId"]
    },
    { operation: "listDeals", description: "Lists the open deals, newest first.", query: { status: "open", limit: 2 } }
  ],
  outputs: {
    clientId: "$steps.createClient.outputs.clientId",
    dealId: "$steps.createDeal.outputs.dealId"
  }
}

const webhook: Workflow = {
  workflowId: "webhook",
  summary: "A webhook, and the events that it gets",
  description:
    "Subscribes an installation to events of deals, then creates a deal and moves it to another stage, which emits two " +
    "events. A webhook that the installation already has stays as it is.",
  steps: [
    {
      operation: "configureWebhook",
      description:
        "Creates the webhook. The first answer alone has the signing secret; 409 says that another command has created it.",
      path: { installationId: "ins_shop" },
      key: "arazzo-webhook",
      statuses: [200, 409]
    },
    {
      operation: "createDeal",
      description: "Emits `crm.deal.created.v1`.",
      key: "arazzo-webhook-deal",
      change: { clientId: "cli_mara" },
      outputs: { dealId: resourceId }
    },
    {
      operation: "patchDeal",
      description: "Moves the deal to the next stage, which emits `crm.deal.stage_changed.v1`.",
      path: { dealId: "$steps.createDeal.outputs.dealId" },
      key: "{$steps.createDeal.outputs.dealId}-move",
      body: { stageId: "stage_talking" }
    }
  ],
  outputs: { dealId: "$steps.createDeal.outputs.dealId" }
}

const campaignId = "$steps.duplicate.outputs.campaignId"
const commanded = { operation: "patchCampaign", path: { campaignId } } as const

const campaign: Workflow = {
  workflowId: "campaign",
  summary: "A campaign from its route to its schedule",
  description:
    "Copies a draft, as a campaign can be scheduled once, and commands the copy: sets its route, freezes its audience, " +
    "schedules it.",
  steps: [
    {
      operation: "patchCampaign",
      stepId: "duplicate",
      description: "Copies the campaign. `resourceId` is the copy.",
      path: { campaignId: "cmp_tasting" },
      key: "arazzo-campaign",
      body: { operation: "duplicate" },
      outputs: { campaignId: resourceId }
    },
    {
      ...commanded,
      stepId: "setPrimaryRoute",
      description: "Sets the template, and the channel that sends it.",
      key: `{${campaignId}}-route`,
      body: { operation: "set_primary_route", templateId: "tpl_tasting", templateVersion: 1, channelId: "chan_sandbox" }
    },
    {
      ...commanded,
      stepId: "freezeAudience",
      description: "Takes the active clients of a segment as recipients.",
      key: `{${campaignId}}-audience`,
      body: {
        operation: "freeze_audience",
        filter: {
          contactStatus: "active",
          segmentId: "seg_tasting",
          providerTypes: [],
          requiredTags: [],
          stageIds: []
        }
      }
    },
    {
      operation: "getCampaignAudience",
      description: "Reads how many of them are eligible.",
      path: { campaignId },
      conditions: ["$response.body#/audience/eligibleCount > 0"]
    },
    {
      ...commanded,
      stepId: "schedule",
      description: "Schedules the campaign, in the project's time zone.",
      key: `{${campaignId}}-schedule`,
      body: { operation: "schedule", scheduledForLocal: "2099-05-02T10:00", sendsPerMinute: 30 }
    }
  ],
  outputs: { campaignId }
}

export const workflows: ReadonlyArray<Workflow> = [firstDeal, webhook, campaign]
