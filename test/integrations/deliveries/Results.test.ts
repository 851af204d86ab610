/** Results that are not recorded: what is held, and for how long. */
import { assert, it } from "@effect/vitest"
import { InstallationId, ProjectId } from "../../../src/api/schema/Ids.ts"
import * as Results from "../../../src/integrations/deliveries/DeliveryLoop/Results.ts"
import { keyOf } from "../../../src/integrations/deliveries/DeliveryLoop/Visits.ts"

const endpointOf = (name: string) => ({ projectId: ProjectId.make("p"), installationId: InstallationId.make(name) })
const endedAt = (name: string): Results.Ended => Object.assign(Object.create(null), { lease: endpointOf(name) })

it("a held result is taken again in time, though results of other endpoints are held meanwhile", () => {
  const results = Results.make()
  const millis = (n: number) => BigInt(n) * 1_000_000n
  const held = endedAt("first")
  results.hold([held], new Set([keyOf(endpointOf("first"))]), millis(0))
  for (let n = 1; n <= 24; n++) results.hold([endedAt(`${n}`)], new Set([keyOf(endpointOf(`${n}`))]), millis(n))
  assert.deepStrictEqual(results.take(millis(24)), [])
  assert.include(results.take(millis(25)), held)
})
