/** Deals: a new one, on the default pipeline. */
import { type Case, command } from "../Case.ts"
import { business } from "../Seed.ts"
import { decodeReceipt } from "./Clients.ts"

const createRequest = (deal: object) => command("POST", "/api/v1/developer/crm/deals", deal)

const { amountMinor, clientId, currency, title } = business(0)

const unknownReference = (member: object) => ({
  request: createRequest({ ...business(0), ...member }),
  status: 404,
  code: "deal_reference_not_found"
})

const invalid = (deal: object, ...locations: ReadonlyArray<string>) => ({
  request: createRequest(deal),
  status: 400,
  code: "validation_failed",
  locations
})

export const createDeal: Case = {
  traffic: (_, connection) => {
    let sent = 0
    // Each connection has its own clients: a foreign key locks the row that it references.
    return () => createRequest(business(connection * 997 + sent++))
  },
  status: 201,
  policy: "write",
  etag: () => '"1"',
  check: decodeReceipt,
  statement: "%INTO deals%",
  writes: "deals",
  refusals: [
    unknownReference({ clientId: "cli_none" }),
    unknownReference({ organizationId: "org_none", responsibleMemberId: "mem_none" }),
    unknownReference({ pipelineId: "pipe_none" }),
    unknownReference({ stageId: "stage_none" }),
    invalid({ title, clientId, amountMinor }, "body/currency"),
    invalid({ title, clientId, amountMinor: null, currency }, "body/amountMinor"),
    invalid({ title: "", amountMinor: -1, currency: null }, "body/amountMinor", "body/currency", "body/title"),
    invalid({ title, amountMinor, currency: "XYZ" }, "body/currency"),
    invalid({ title, expectedCloseDate: "2026-02-29", stage: 1 }, "body/expectedCloseDate", "body/stage")
  ]
}
