/** Changes of keys and projects by operators take effect within a second on every replica (contract §3, §12). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { Agent } from "node:http"
import { problemOf } from "../support/ContractAnswers.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { open, path } from "./Clients.support.ts"

layer(TestServer.layer(), { excludeTestServices: true })("within one second", (it) => {
  for (const [what, change, status, code] of [
    ["a revocation", "revoke", 401, "credential_invalid"],
    ["a module that is off", { project: { modules: [] } }, 403, "module_unavailable"],
    ["an entitlement that is gone", { project: { entitlements: [] } }, 403, "entitlement_unavailable"],
    ["a member who is inactive", { members: [{ id: "m", name: "M", active: false }] }, 403, "membership_unavailable"]
  ] as const) {
    it.effect(`${what} takes effect on every replica for a token in constant use on one connection`, function* () {
      const { apply, projectId, server } = yield* open({ members: [{ id: "m", name: "M" }] })
      const replica = yield* startServer({ DATABASE_URL: server.databaseUrl })
      const token = yield* server.issue(projectId, { memberId: "m" })
      const agent = yield* Effect.acquireRelease(
        Effect.sync(() => new Agent({ keepAlive: true, maxSockets: 1 })),
        (agent) => Effect.sync(() => agent.destroy())
      )
      const request = { path, token, agent }
      const ask = () => Effect.all([server.send(request), replica.send(request)], { concurrency: 2 })
      let done = false
      const use = Effect.whileLoop({
        while: () => !done,
        body: () => Effect.delay(ask(), "10 millis"),
        step: () => {}
      })
      const test = Effect.gen(function* () {
        for (const answer of yield* ask()) assert.strictEqual(answer.status, 200)
        yield* change === "revoke" ? server.revoke(token) : apply(change)
        yield* Effect.sleep("1 second")
        for (const answer of yield* ask()) problemOf(answer, status, code)
      })
      yield* Effect.all(
        [
          use,
          Effect.ensuring(
            test,
            Effect.sync(() => (done = true))
          )
        ],
        { concurrency: 2 }
      )
    })
  }
})
