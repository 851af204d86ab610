/** Bodies made to cost more than they should (contract §1): each is refused with a small answer and little CPU time. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { problemOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { hostileBodies } from "../support/HostileBodies.ts"

const maxAnswer = 64 * 1024

layer(TestServer.layer(), { excludeTestServices: true })("a hostile body", (it) => {
  for (const [name, { body, omits = false }] of Object.entries(hostileBodies)) {
    it.effect(`is refused with 400, at most 64 KiB and 100 ms of CPU time: ${name}`, () =>
      Effect.gen(function* () {
        const { seed, send } = yield* TestServer
        const { token } = yield* seed()
        const headers = { "content-type": "application/json" }
        const request = {
          method: "POST",
          path: "/api/v1/developer/crm/clients",
          token,
          key: "hostile-body",
          headers,
          body
        }
        let least = Number.POSITIVE_INFINITY
        for (let round = 0; round < 5; round++) {
          const before = process.cpuUsage()
          const answer = yield* send(request)
          const { system, user } = process.cpuUsage(before)
          least = Math.min(least, (system + user) / 1_000)
          assert.strictEqual(answer.status, 400)
          assert.isAtMost(Buffer.byteLength(answer.text), maxAnswer)
          const { code, detail, errors } = problemOf(answer, 400, "validation_failed")
          assert.strictEqual(code, "validation_failed")
          for (const location of Object.keys(errors ?? {})) assert.isAtMost([...location].length, 256)
          assert.strictEqual(/At least [0-9]+ more faults? (?:is|are) left out\.$/.test(String(detail)), omits)
        }
        // The lowest of five: what the request costs without what else runs in this process.
        assert.isBelow(least, 100)
      })
    )
  }

  it.effect("with hundreds of unknown members is refused without a missing-member fault for one that is present", () =>
    Effect.gen(function* () {
      const { seed, send } = yield* TestServer
      const { token } = yield* seed()
      const unknown = Object.fromEntries(Array.from({ length: 900 }, (_, index) => [`m${index}`, 0]))
      const commands: ReadonlyArray<readonly [path: string, method: string, json: object]> = [
        ["/api/v1/developer/crm/clients", "POST", { ...unknown, displayName: "x" }],
        [
          "/api/v1/developer/campaigns/c",
          "PATCH",
          {
            ...unknown,
            operation: "freeze_audience",
            filter: { ...unknown, contactStatus: "all", providerTypes: [], requiredTags: [], stageIds: [] }
          }
        ]
      ]
      for (const [path, method, json] of commands) {
        const { errors } = problemOf(
          yield* send({ method, path, token, key: "required-1", json }),
          400,
          "validation_failed"
        )
        assert.isFalse(Object.values(errors ?? {}).some((messages) => String(messages).includes("is required")))
      }
    })
  )

  it.effect("is refused when it comes with two Host headers", () =>
    Effect.gen(function* () {
      const { sendBytes } = yield* TestServer
      for (const path of ["/healthz", "/api/v1/developer/crm/clients", "/nothing"]) {
        const text = yield* sendBytes(`GET ${path} HTTP/1.1\r\nhost: a\r\nHOST: b\r\nconnection: close\r\n\r\n`)
        assert.match(text, /^HTTP\/1\.1 400 /)
        assert.include(text, '"errors":{"header/host":["must not be repeated"]}')
      }
    })
  )
})
