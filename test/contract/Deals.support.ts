/** A project for one test, with the operations on its deals. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { dealOf, dealPageOf, receiptOf } from "../support/ContractAnswers.ts"
import { type Parts, type Seeded, TestServer } from "../support/TestServer.ts"
import { callsOn, recordPath } from "./Records.support.ts"

export const path = "/api/v1/developer/crm/deals"

export const dealPath = recordPath(path)

const calls = callsOn(path, dealOf, dealPageOf)

/** Returns calls on a project's deals with one of its tokens. */
export const callsOf = (server: TestServer["Service"], seeded: Seeded) => {
  const deals = calls(server, seeded)
  return {
    ...deals,
    /** Creates a deal; returns it. */
    created: (json: object = {}) =>
      Effect.flatMap(deals.create({ title: "New", ...json }), (answer) =>
        deals.read(receiptOf(answer, 201).resourceId)
      ),
    /** Sends a patch that has to change the deal; returns the deal. */
    patched: (id: string, json: unknown) =>
      Effect.flatMap(deals.patch(id, json), (answer) => {
        assert.isTrue(receiptOf(answer, 200).changed)
        return deals.read(id)
      })
  }
}

/** Two pipelines. The default one, `sales`, is not the first, and its first stage is not the first by id. */
export const pipelines = [
  {
    id: "service",
    name: "Service",
    stages: [
      { id: "intake", name: "Intake" },
      { id: "done", name: "Done" }
    ]
  },
  {
    id: "sales",
    name: "Sales",
    stages: [
      { id: "new", name: "New" },
      { id: "agreed", name: "Agreed" },
      { id: "closing", name: "Closing" }
    ]
  }
]

/** The records to which a deal can refer: of each kind an active one, and one that is archived or inactive. */
const referable: Parts = {
  pipelines,
  clients: [
    { id: "c", displayName: "C" },
    { id: "gone", displayName: "Gone", status: "archived" }
  ],
  organizations: [
    { id: "o", name: "O" },
    { id: "old", name: "Old", archived: true }
  ],
  members: [
    { id: "m", name: "M" },
    { id: "idle", name: "Idle", active: false }
  ]
}

/** Creates a project with records to which deals can refer; `sales` is the default pipeline. */
export const open = Effect.fnUntraced(function* (parts: Parts = {}) {
  const server = yield* TestServer
  const project = { defaultPipelineId: "sales", ...parts.project }
  return callsOf(server, yield* server.seed({ ...referable, ...parts, project }))
})
