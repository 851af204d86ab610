/** The time that a first load takes: new clients by batches of 100, one after the other. */
import { Effect } from "effect"
import { randomUUID } from "node:crypto"
import type { Running } from "../Stage.ts"
import { command } from "./Case.ts"
import { person } from "./Seed.ts"

const batchCount = 100
const size = 100

export const loadClients = ({ url }: Running, token: string) =>
  Effect.promise(async () => {
    const begun = performance.now()
    for (let batch = 0; batch < batchCount; batch++) {
      const key = `load-${randomUUID()}`
      const items = Array.from({ length: size }, (_, i) => ({ ...person(i), externalId: `${key}-${i}` }))
      const { path, ...request } = command("POST", "/api/v1/developer/crm/clients/batch", { items }, key)
      const headers = { ...request.headers, authorization: `Bearer ${token}` }
      const answer = await fetch(`${url}${path}`, { ...request, headers })
      const made = (await answer.text()).match(/"created":true/g) ?? []
      if (made.length !== size) throw new Error(`A batch made ${made.length} clients`)
    }
    return `${batchCount * size} new clients by batches of ${size}: ${((performance.now() - begun) / 1_000).toFixed(1)} s`
  })
