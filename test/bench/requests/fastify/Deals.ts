/** Deals: create. */
import type { FastifyInstance, FastifyRequest } from "fastify"
import { randomBytes } from "node:crypto"
import type { Pool } from "pg"
import { checkTarget, type Guard } from "./Guard.ts"
import { commandOf, mutate, newId, receipt, type Refusal } from "./Mutations.ts"
import { Problem } from "./Problem.ts"
import * as Schemas from "./Schemas.ts"
import { createDeal } from "./Sql.ts"

export const deals = (app: FastifyInstance, pool: Pool, guard: Guard): void => {
  app.post(
    "/api/v1/developer/crm/deals",
    {
      onRequest: guard("crm.deals.write", "write"),
      preValidation: checkTarget,
      schema: {
        headers: Schemas.recordMutationHeaders,
        querystring: Schemas.noQuery,
        body: Schemas.dealCreate,
        response: { 201: Schemas.receipt }
      }
    },
    async (request, reply) => {
      const command = commandOf(request, "createDeal")
      const values = [newId("deal", command.at), JSON.stringify(request.body), traceparentOf(request)]
      return receipt(reply, 201, await mutate(pool, command, { ...create, values }))
    }
  )
}

/** Messages for missing references of a deal, by the name of the fault. */
const noSuchReference: Readonly<Record<string, string>> = {
  clientId: "The project has no client with the id in clientId.",
  organizationId: "The project has no organization with the id in organizationId.",
  responsibleMemberId: "The project has no member with the id in responsibleMemberId.",
  pipelineId: "The project has no pipeline with the id in pipelineId.",
  defaultPipeline: "The project has no default pipeline: send a pipelineId.",
  stageId: "The pipeline has no stage with the id in stageId: GET …/crm/pipelines lists its stages."
}

const create = {
  name: "createDeal",
  text: createDeal,
  problems: {
    deal_reference_not_found: ({ faults }: Refusal) =>
      new Problem(
        404,
        "deal_reference_not_found",
        "The deal references a record that the project does not have.",
        faults.map((fault) => noSuchReference[fault] ?? fault).join(" ")
      )
  }
}

const traceparent = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/

/** Returns the trace of an event (W3C Trace Context): the trace of the request, or a new one. */
const traceparentOf = ({ headers }: FastifyRequest): string => {
  const given = headers["traceparent"]
  const [, traceId, spanId, traceFlags = ""] = (typeof given === "string" && traceparent.exec(given)) || []
  return traceId === undefined
    ? `00-${randomBytes(16).toString("hex")}-${randomBytes(8).toString("hex")}-01`
    : `00-${traceId}-${spanId}-${Number.parseInt(traceFlags, 16) & 1 ? "01" : "00"}`
}
