/** Creates of one project share no row locks. PostgreSQL would record each shared lock as a multixact, and vacuum it later. */
import { assert } from "@effect/vitest"
import { it } from "vitest"
import { pipelines } from "../contract/Deals.support.ts"
import { ok, settings } from "../integrations/deliveries/Deliveries.support.ts"
import { untilNoneLeft } from "../support/UntilNoneLeft.ts"
import { startCluster } from "./Cluster.support.ts"
import { project, startHere } from "./Projects.support.ts"
import { type Answer } from "./Requests.support.ts"
import { listen, openShop } from "./Shop.support.ts"

const creates = 300
const concurrency = 25
const numbers = Array.from({ length: creates }, (_, n) => n)

it("concurrent creates of one project make almost no multixacts, whatever they reference", async () => {
  const { url } = await startCluster()
  // Creates of one process share statements, which could hide the locks that two processes share.
  const [service, other] = await Promise.all([startHere(url, settings, "all"), startHere(url, settings)])
  const receiver = await listen(ok)
  const shop = await openShop(url, service, receiver.url)
  await project(url, {
    project: { id: shop.id, name: shop.id },
    members: [{ id: "member", name: "Member" }],
    organizations: [{ id: "organization", name: "Organization" }],
    clients: numbers.map((n) => ({ id: `client-${n}`, displayName: "Client" })),
    channels: [{ id: "chat", providerType: "sandbox", displayName: "Chat" }],
    conversations: [{ id: "0193f0cb-d4e5-7f70-8192-03a4b5c6d7e8", channelId: "chat", address: "somebody" }],
    pipelines,
    deals: numbers.map((n) => ({ id: `deal-${n}`, title: "Deal", pipelineId: "sales", stageId: "new" }))
  })
  // A foreign key locks the client of a deal and the deal of a note, so each create has its own.
  const kinds: Readonly<Record<string, (n: number) => readonly [path: string, body: unknown]>> = {
    client: () => ["crm/clients", { displayName: "Client" }],
    deal: (n) => [
      "crm/deals",
      { title: "Deal", clientId: `client-${n}`, organizationId: "organization", responsibleMemberId: "member" }
    ],
    note: (n) => [`crm/deals/deal-${n}/notes`, { body: "Note" }],
    message: () => ["messaging/conversations/0193f0cb-d4e5-7f70-8192-03a4b5c6d7e8/messages", { text: "Message" }]
  }
  const multixacts = async () => {
    await shop.query("CHECKPOINT")
    const [row] = await shop.query("SELECT next_multixact_id::text::bigint AS next FROM pg_control_checkpoint()")
    return Number(row?.["next"])
  }
  const made: Record<string, number> = {}
  for (const [kind, requestOf] of Object.entries(kinds)) {
    const before = await multixacts()
    let n = 0
    const caller = async () => {
      while (n < creates) {
        const [path, body] = requestOf(n)
        const of = n % 2 === 0 ? service : other
        const answer: Answer = await shop.call(of, "POST", path, `${kind}-multixact-${n++}`, body)
        assert.include([200, 201], answer.status, answer.text)
      }
    }
    await Promise.all(Array.from({ length: concurrency }, caller))
    await untilNoneLeft(() => shop.inState("pending", "delivering"))
    made[kind] = (await multixacts()) - before
  }
  assert.isBelow(Math.max(...Object.values(made)), 5, JSON.stringify(made))
})
