/** Redocly's `respect` runs the workflows of `/arazzo.json` against the live service with its demo project. */
import { assert, layer } from "../support/Vitest.ts"
import { Context, Effect, Layer, Schema } from "effect"
import { execFile } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { demoProjectFile } from "../support/DemoProject.ts"
import { send } from "../support/ContractHttp.ts"
import { TestServer } from "../support/TestServer.ts"

const redocly = join(import.meta.dirname, "node_modules/@redocly/cli/bin/cli.js")
const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true", NO_COLOR: "1" }

/** Applies the demo project as another project, with a token. */
const demo = Effect.fnUntraced(function* (projectId: string) {
  const { apply, issue } = yield* TestServer
  const { project, ...records } = demoProjectFile
  yield* apply(projectId, { ...records, project: { ...project, id: projectId } })
  return yield* issue(projectId)
})

/** The document in a file, and Redocly's commands on it: whether they succeed, and what they print. */
class Redocly extends Context.Service<
  Redocly,
  { readonly run: (...args: ReadonlyArray<string>) => Effect.Effect<{ passed: boolean; output: string }> }
>()("developer-api/test/Redocly") {
  static readonly layer = Layer.effect(
    Redocly,
    Effect.gen(function* () {
      const { url } = yield* TestServer
      const { text } = yield* send(url, { path: "/arazzo.json" })
      const directory = yield* Effect.acquireRelease(
        Effect.promise(() => mkdtemp(join(tmpdir(), "developer-api-workflows-"))),
        (directory) => Effect.promise(() => rm(directory, { recursive: true }))
      )
      yield* Effect.promise(() => writeFile(join(directory, "arazzo.json"), text))
      const run = (...[command = "", ...args]: ReadonlyArray<string>) =>
        Effect.callback<{ passed: boolean; output: string }>((resume) => {
          const all = [redocly, command, "arazzo.json", ...args]
          execFile(process.execPath, all, { cwd: directory, env }, (error, stdout, stderr) =>
            resume(Effect.succeed({ passed: error === null, output: stdout + stderr }))
          )
        })
      return { run }
    })
  )
}

const respect = Effect.fnUntraced(function* (token: string) {
  const { url } = yield* TestServer
  return yield* (yield* Redocly).run("respect", "--input", `server=${url}`, "--input", `token=${token}`)
})

const passes = (token: string) =>
  Effect.map(respect(token), ({ output, passed }) => {
    assert.isTrue(passed, output)
    assert.include(output, "Workflows: 3 passed, 3 total")
  })

const webhook = "/api/v1/developer/integrations/ins_shop/outbound-webhook"
const campaign = "/api/v1/developer/campaigns/cmp_tasting"

const Items = Schema.Struct({ items: Schema.Array(Schema.Struct({ id: Schema.String, version: Schema.Finite })) })

layer(Redocly.layer.pipe(Layer.provideMerge(TestServer.layer({}, "api"))), { excludeTestServices: true })(
  "the workflows",
  (it) => {
    it.effect("pass Redocly's rules of Arazzo", function* () {
      const { output, passed } = yield* (yield* Redocly).run("lint")
      assert.isTrue(passed, output)
      assert.notInclude(output, "warning")
    })

    it.effect("pass again and again, and change nothing more", function* () {
      const { send, sql } = yield* TestServer
      const token = yield* demo("again")
      const records = Effect.gen(function* () {
        const lists = yield* Effect.forEach(["clients", "deals"], (list) =>
          send({ path: `/api/v1/developer/crm/${list}?limit=100`, token })
        )
        const [campaigns] = yield* sql`SELECT sum(version) FROM campaigns WHERE project_id = 'again'`
        return { crm: lists.map(({ json }) => Schema.decodeUnknownSync(Items)(json).items), campaigns }
      })
      const before = yield* records
      yield* passes(token)
      const after = yield* records
      assert.deepStrictEqual(
        after.crm.map(({ length }, list) => length - (before.crm[list]?.length ?? 0)),
        [1, 2]
      )
      yield* passes(token)
      assert.deepStrictEqual(yield* records, after)
    })

    it.effect(
      "pass in a project whose webhook and campaign are in use, also after its keys are forgotten",
      function* () {
        const { send, sql } = yield* TestServer
        const token = yield* demo("used")
        const endpointUrl = "https://own.example.com/hooks"
        const route = { templateId: "tpl_tasting", templateVersion: 1, channelId: "chan_sandbox" }
        const filter = { contactStatus: "all", providerTypes: [], requiredTags: [], stageIds: [] }
        for (const [index, [method, path, json]] of (
          [
            ["PUT", webhook, { endpointUrl, eventTypes: ["crm.deal.created.v1"], expectedVersion: null }],
            ["PATCH", campaign, { operation: "set_primary_route", ...route }],
            ["PATCH", campaign, { operation: "freeze_audience", filter }],
            ["PATCH", campaign, { operation: "schedule", scheduledForLocal: "2099-05-02T10:00", sendsPerMinute: 1 }]
          ] as const
        ).entries()) {
          const answer = yield* send({ method, path, token, key: `own-${index}`, json })
          assert.strictEqual(answer.status, 200, answer.text)
        }
        yield* passes(token)
        yield* sql`DELETE FROM idempotency_keys WHERE project_id = 'used'`
        yield* passes(token)
      }
    )

    it.effect("fail with a token that permits nothing", function* () {
      const { issue } = yield* TestServer
      yield* demo("forbidden")
      const { output, passed } = yield* respect(yield* issue("forbidden", { scopes: [] }))
      assert.isFalse(passed)
      assert.include(output, "Workflows: 3 failed, 3 total")
    })
  }
)
