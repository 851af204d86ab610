/** Callers of a project that moves, and the comparison of their ledger with the cell that has it. */
import { assert } from "@effect/vitest"
import { eventually } from "../support/Waiting.ts"
import { type Api, makeCalls, mutations } from "./Mix.calls.support.ts"
import { clientState, makeLedger, openCallers, runCallers, type Scene, startCrowd } from "./Mix.callers.support.ts"
import { balance, settled } from "./Mix.ledger.support.ts"
import type { Project } from "./Mix.project.support.ts"
import type { Cell } from "./Move.support.ts"
import { createClient } from "./Requests.support.ts"

type Stored = Pick<Cell, "databaseUrl" | "query">

/**
 * Gives a project `size` more clients, a long campaign over each kind of provider, and callers of every mutation. They stay with an
 * API until it refuses a command, then ask the next one.
 */
export const load = async (project: Project, apis: ReadonlyArray<Api>, size: number) => {
  const { id, token } = project
  const ledger = makeLedger()
  await project.query(`
    INSERT INTO clients (project_id, id, display_name, tags, status, version, created_at, updated_at)
    SELECT '${id}', 'c' || n, 'Client é ' || n, '{}', 'active', 1, now(), now() FROM generate_series(1, ${size}) n`)
  await project.query(`UPDATE projects SET active_clients = active_clients + ${size} WHERE project_id = '${id}'`)
  for (let n = 1; n <= size; n++) ledger.clients.set(`c${n}`, clientState(`Client é ${n}`, "active", 1))

  let api = apis[0] ?? assert.fail("no API")
  const calls = makeCalls(
    {
      api: () => api,
      leave: (left) => {
        if (left === api) api = apis[(apis.indexOf(left) + 1) % apis.length] ?? left
      },
      // Before the copy has its key, the target does not know the token.
      refusals: ["401 credential_invalid"]
    },
    token
  )
  const scene: Scene = { env: {}, project, calls, ledger, mutations }
  const { failed, run } = runCallers()
  const { others, retries } = await openCallers(scene)
  await startCrowd(scene, 100)
  const stops = others.map((caller) => run(caller, 100))
  const ended = <A>(work: Promise<A>) => Promise.race([failed, work])
  return {
    id,
    token,
    longest: () => calls.counts.longest,
    goesOn: () => ended(calls.goOn()),
    /** Creates a client at a cell, which has to serve the project by now or soon. */
    worksAt: (at: Api, key: string) =>
      eventually(async () => {
        const answer = await createClient(at.url, token, key, "Works")
        assert.strictEqual(answer.status, 201)
        calls.note("createClient", answer)
        const { json: body } = answer
        const created = typeof body === "object" && body !== null && "resourceId" in body ? String(body.resourceId) : ""
        ledger.clients.set(created, clientState("Works", "active", 1))
      }),
    stop: () => ended(Promise.all(stops.map((stop) => stop()))),
    /**
     * Asserts that the cell has every acknowledged command once, and that each event, message and recipient was sent to exactly
     * once. With `deaths`, a call whose process died has no outcome: its event is sent again, its message is not.
     */
    expect: async (at: Stored, deaths = false) => {
      await project.follow(at.databaseUrl)
      const stopRetries = run(retries, 200)
      await ended(settled(scene))
      await ended(stopRetries())
      const { again, ofCampaigns, unknown } = await ended(balance(scene))
      if (!deaths) assert.deepStrictEqual([again, unknown, ofCampaigns.unknown, ofCampaigns.repeated], [0, 0, 0, 0])
    }
  }
}

/** Waits until the campaigns of a project go on that are under way: they have sent messages, and have some to send. */
export const campaignsGoOn = async ({ query }: Stored, id: string) => {
  const recipients = async (status: string) =>
    (await query(`SELECT FROM campaign_recipients WHERE project_id = '${id}' AND status = '${status}'`)).length
  const before = await recipients("sent")
  assert.isAbove(await recipients("pending"), 0)
  await eventually(async () => assert.isAbove(await recipients("sent"), before))
}
