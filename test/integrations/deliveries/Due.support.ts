/** Projects with due deliveries, without a worker: the test claims and records. */
import { Effect } from "effect"
import type { Claim } from "../../../src/integrations/deliveries/DeliveryLoop/Claim.ts"
import type { Worker } from "../../../src/work/Worker.ts"
import { answered, claimWith, namedOf, recordAll, resultWith } from "../../support/Claims.ts"
import { TestServer } from "../../support/TestServer.ts"
import { open } from "./Deliveries.support.ts"

export const workerId = 1n

/** A worker that considers no other worker dead. */
export const worker: Worker["Service"] = {
  id: workerId,
  leaseId: () => workerId,
  isFirst: () => true,
  isDead: (sql) => sql`false`
}

export const nowhere = "http://127.0.0.1:9/"
export const created = ["crm.deal.created.v1"]

/** Opens a project whose webhooks have this number of due deliveries each. */
export const openDue = Effect.fnUntraced(function* (deals = 1, installations: ReadonlyArray<string> = ["shop"]) {
  const project = yield* open(yield* TestServer, installations)
  for (const name of installations) yield* project.subscribe(name, nowhere, created)
  for (let n = 0; n < deals; n++) yield* project.created()
  const { projectId, sql } = project
  return {
    ...project,
    /** Claims deliveries of the project. Its endpoints are named, as after a notice, unless the terms differ. */
    claimed: (concurrency = 4, terms: Parameters<typeof claimWith>[1] = {}) =>
      claimWith(sql, {
        concurrency,
        named: installations.map((name) => namedOf(projectId, name, concurrency)),
        ...terms
      }).pipe(Effect.map(({ claims }) => claims.filter((claim) => claim.projectId === projectId))),
    recorded: (claims: ReadonlyArray<Claim>, outcome = answered(500)) =>
      recordAll(
        sql,
        claims.map((claim) => resultWith(claim, outcome))
      )
  }
})
