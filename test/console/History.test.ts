/** The search and `find`: from the id of a request, a trace, a key or a record to its commands, events and deliveries (contract §13). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Schema } from "effect"
import { randomBytes } from "node:crypto"
import { documentOf } from "../cli/Cli.support.ts"
import { open, receiver, status } from "../webhooks/delivery/Deliveries.support.ts"
import { sessionOf, Shared } from "./Console.support.ts"

const Id = Schema.NullOr(Schema.String)
const History = Schema.Struct({
  items: Schema.Array(Schema.Struct({ kind: Schema.String, id: Schema.String })),
  commands: Schema.Array(
    Schema.Struct({
      operation: Id,
      resourceId: Schema.String,
      idempotencyKey: Schema.String,
      keyId: Id,
      requestId: Id,
      traceId: Id
    })
  ),
  actions: Schema.Array(Schema.Struct({ action: Schema.String, actor: Schema.String })),
  events: Schema.Array(Schema.Struct({ id: Schema.String, type: Schema.String })),
  deliveries: Schema.Array(
    Schema.Struct({ eventId: Schema.String, installationId: Schema.String, status: Schema.String })
  )
})
const decode = Schema.decodeUnknownSync(History)
const deals = "/api/v1/developer/crm/deals"

layer(Shared.layer, { excludeTestServices: true })("a history", (it) => {
  it.effect(
    "leads from each id of a request to its command, its record, its events and their deliveries",
    function* () {
      const server = yield* Shared
      const project = yield* open(server, ["shop", "desk"])
      const { projectId, token } = project
      yield* project.subscribe("shop", (yield* receiver(status(200))).url)
      yield* project.subscribe("desk", (yield* receiver(status(500))).url)
      const keyId = token.slice(3, 15)
      const command = (
        name: string,
        path: string,
        body: object,
        method: "POST" | "PATCH" = "POST",
        requestId = `request-${name}`
      ) => {
        const traceId = randomBytes(16).toString("hex")
        const headers = {
          "idempotency-key": `order-${name}`,
          "x-request-id": requestId,
          traceparent: `00-${traceId}-${"1".repeat(16)}-01`
        }
        return Effect.map(server.send({ method, path, token, json: body, headers }), ({ json }) => ({
          id: String(Object(json).resourceId),
          made: { keyId, traceId, idempotencyKey: `order-${name}`, requestId: `request-${name}` }
        }))
      }
      const created = yield* command("create", deals, { title: "Boots", externalId: "boots-4711" })
      const id = created.id
      const patched = yield* command("patch", `${deals}/${id}`, { title: "Shoes" }, "PATCH")
      const other = yield* command("other", deals, { title: "Gloves" })
      yield* project.finished
      const create = { ...created.made, operation: "createDeal", resourceId: id }
      const patch = { ...patched.made, operation: "patchDeal", resourceId: id }
      // A token in an id of a request is not stored.
      yield* command("secret", deals, { title: "Hats" }, "POST", token)
      const find = (text: string) =>
        Effect.map(server.command("find", text, "--json"), (ended) => decode(documentOf(ended)))

      for (const text of ["order-create", "request-create", create.traceId, create.requestId.slice(0, -2)]) {
        const { commands, events } = yield* find(text)
        assert.deepStrictEqual([commands, events.map(({ type }) => type)], [[create], ["crm.deal.created.v1"]], text)
      }
      assert.deepStrictEqual(
        (yield* find("order-secret")).commands.map(({ requestId }) => requestId),
        ["dk_[redacted]"]
      )
      // What a key has done, such as one that leaked.
      const ofKey = yield* find(keyId)
      assert.deepStrictEqual(
        ofKey.commands.slice(0, 4).map(({ idempotencyKey }) => idempotencyKey),
        ["order-secret", "order-other", "order-patch", "order-create"]
      )
      assert.strictEqual(ofKey.events.length, 4)
      assert.deepStrictEqual(yield* find("boots-47"), yield* find(id))
      const ofDeal = yield* find(id)
      assert.deepStrictEqual(ofDeal.items, [{ kind: "deal", id }])
      assert.deepStrictEqual(ofDeal.commands, [patch, create])
      assert.deepStrictEqual(
        ofDeal.events.map(({ type }) => type),
        ["crm.deal.updated.v1", "crm.deal.created.v1"]
      )
      assert.strictEqual(ofDeal.deliveries.length, 4)
      const [, event = assert.fail("no event")] = ofDeal.events
      // Another event of the same change is not part of the event's own history.
      yield* server.sql`
      INSERT INTO events SELECT project_id, 'evt_other', type, data, traceparent, occurred_at FROM events
      WHERE project_id = ${projectId} AND id = ${event.id}`.pipe(Effect.orDie)
      const ofEvent = yield* find(event.id)
      assert.deepStrictEqual([ofEvent.commands, ofEvent.events], [[create], [event]])
      assert.sameDeepMembers(
        [...ofEvent.deliveries],
        [
          { eventId: event.id, installationId: "shop", status: "delivered" },
          { eventId: event.id, installationId: "desk", status: "dead" }
        ]
      )

      const { get } = yield* sessionOf(server, projectId)
      const history = (kind: string, id: string) => `/console/history?project=${projectId}&kind=${kind}&id=${id}`
      for (const [text, page] of [
        ["request-create", history("request", "request-create")],
        [create.traceId, history("trace", create.traceId)],
        ["order-create", history("command", "order-create")],
        [event.id, history("event", event.id)],
        [id, history("deal", id)]
      ] as const) {
        const search = yield* get(`/console/search?q=${text}`)
        assert.deepStrictEqual([search.status, search.headers.get("location")], [303, page])
        const { status, text: shown } = yield* get(page)
        assert.strictEqual(status, 200)
        for (const part of ["createDeal", keyId, "request-create", "crm.deal.created.v1", "delivered", "dead"]) {
          assert.include(shown, part, `${text}: ${part}`)
        }
        assert.notInclude(shown, other.id)
      }
      assert.include((yield* get(history("event", event.id))).text, "Boots")
      assert.strictEqual((yield* get(history("deal", "deal_none"))).status, 404)
      // Events of the times that the record itself has stay when its commands are pruned.
      yield* server.sql`DELETE FROM idempotency_keys WHERE project_id = ${projectId}`.pipe(Effect.orDie)
      const later = yield* find(id)
      assert.deepStrictEqual([later.commands.length, later.events.length], [0, 3])
    }
  )

  it.effect("of a key has its revocation, among any number of keys", function* () {
    const server = yield* Shared
    const { projectId, token } = yield* open(server)
    const key = token.slice(3, 15)
    yield* Effect.orDie(server.sql`
      INSERT INTO api_keys (project_id, key_id, token_hash, name, scopes, lifetime, expires_at, created_at)
      SELECT project_id, left(md5(project_id || n), 12), token_hash, name, scopes, lifetime, expires_at, now()
      FROM api_keys, generate_series(1, 60) n WHERE key_id = ${key}`)
    const { get, post } = yield* sessionOf(server, projectId)
    const { headers } = yield* get(`/console/search?q=${key}`)
    const page = headers.get("location") ?? assert.fail("no page")
    assert.include((yield* get(page)).text, "Revoke the key")
    const revoked = yield* post("key.revoke", { key, confirmed: "yes" })
    assert.deepStrictEqual([revoked.status, revoked.headers.get("location")], [303, page])
    const { text } = yield* get(page)
    assert.include(text, "key.revoke")
    assert.notInclude(text, "Revoke the key")
  })

  it.effect("shows an installation that has no webhook, to which the search leads", function* () {
    const server = yield* Shared
    const { projectId } = yield* open(server, ["quiet"])
    const { get } = yield* sessionOf(server, projectId)
    const follow = (path: string) =>
      Effect.map(get(path), ({ headers, status }) => {
        assert.strictEqual(status, 303, path)
        return headers.get("location") ?? ""
      })
    const history = yield* Effect.flatMap(follow(`/console/search?project=${projectId}&q=quiet`), follow)
    const { status, text } = yield* get(history)
    assert.strictEqual(status, 200)
    assert.include(text, "Installation quiet")
    const nobody = yield* follow(`/console/webhook?project=${projectId}&installation=nobody`)
    assert.strictEqual((yield* get(nobody)).status, 404)
  })

  it.effect(
    "shows what operators have done to a record, and what is left of one that is removed, without its name",
    function* () {
      const server = yield* Shared
      const project = yield* open(server)
      const { projectId, token } = project
      const client = yield* server.send({
        method: "POST",
        path: "/api/v1/developer/crm/clients",
        token,
        json: { displayName: "Mara Gone" },
        headers: { "idempotency-key": "gone-create" }
      })
      const id = String(Object(client.json).resourceId)
      yield* server.sql`DELETE FROM clients WHERE project_id = ${projectId} AND id = ${id}`.pipe(Effect.orDie)
      const task = Object(
        documentOf(yield* server.command("task", "create", "--project", projectId, "--title", "Call", "--json"))
      ).taskId
      const find = (text: string) =>
        Effect.map(server.command("find", text, "--json"), (ended) => decode(documentOf(ended)))
      assert.deepStrictEqual((yield* find(id)).items, [{ kind: "removed", id }])
      assert.deepStrictEqual(
        (yield* find(String(task))).actions.map(({ action }) => action),
        ["task.create"]
      )
      const { get } = yield* sessionOf(server, projectId)
      const { text } = yield* get(`/console/history?project=${projectId}&kind=removed&id=${id}`)
      assert.include(text, "gone-create")
      assert.notInclude(text, "Mara")
      // The rows of a version before have none of the new columns.
      yield* server.sql`
      UPDATE idempotency_keys SET request_id = NULL, trace_id = NULL, key_id = NULL, operation = NULL
      WHERE project_id = ${projectId} AND key = 'gone-create'`.pipe(Effect.orDie)
      assert.deepStrictEqual(
        (yield* find("gone-create")).commands.map(({ operation }) => operation),
        [null]
      )
    }
  )
})
