/** Every command that names a version: it takes the current one alone, and one of several writers has it (contract §5, §7, §9, §10). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Layer } from "effect"
import { codeOf, problemOf } from "../support/ContractAnswers.ts"
import { slowDown } from "../support/Locks.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { atOnce, statusesOf } from "./Clients.support.ts"
import { requestOf } from "./Requests.ts"
import type { Restore, Sample } from "./Sample.ts"
import { receiptOfSample, samples, World } from "./Samples.ts"

const sampleOf = (name: string): Sample => samples[name] ?? assert.fail(name)

/** Inserts the campaign of the samples, or resets it to its first version. */
const putCampaign: Restore = (sql, projectId) =>
  sql`
    INSERT INTO campaigns (project_id, id, name, created_at, updated_at) VALUES (${projectId}, 'cmp_own', 'Own', now(), now())
    ON CONFLICT (project_id, id) DO UPDATE SET name = excluded.name, version = 1`.pipe(Effect.asVoid, Effect.orDie)

const campaign = (body: object): Sample => ({
  ...sampleOf("patchCampaign"),
  body: { expectedVersion: 1, ...body },
  restore: putCampaign
})

const { restore: _, ...configure } = sampleOf("configureWebhook")
const rotate = sampleOf("rotateWebhookSecret")

/** Resets the webhook of the samples to its first version, with another URL than the one that is configured. */
const putWebhook: Restore = (sql, projectId) =>
  Effect.andThen(
    rotate.restore?.(sql, projectId) ?? Effect.void,
    sql`
      UPDATE webhooks SET endpoint_url = 'https://old.example.com/'
      WHERE project_id = ${projectId} AND installation_id = 'ins_own'`
  ).pipe(Effect.asVoid, Effect.orDie)

/** The commands on each record. All of them name the version that their restored record has: 1, or null if there is none. */
const records: Readonly<Record<string, Readonly<Record<string, Sample>>>> = {
  note: { patchNote: sampleOf("patchNote"), deleteNote: sampleOf("deleteNote") },
  "new webhook": { configureWebhook: sampleOf("configureWebhook") },
  webhook: {
    "configureWebhook again": {
      ...configure,
      restore: putWebhook,
      params: { installationId: "ins_own" },
      body: { ...configure.body, expectedVersion: 1 }
    },
    rotateWebhookSecret: { ...rotate, restore: putWebhook }
  },
  campaign: {
    "patchCampaign rename": campaign({ operation: "rename", name: "Renamed" }),
    "patchCampaign delete": campaign({ operation: "delete" })
  }
}
const commands = Object.values(records).flatMap((commands) => Object.entries(commands))
const isCreate = ({ body }: Sample) => body?.["expectedVersion"] === null
const isDelete = ({ body, method }: Sample) => method === "DELETE" || body?.["operation"] === "delete"

/** Returns the change of a sample that names another version. */
const at = ({ body }: Sample, expectedVersion: number | null) =>
  body === undefined ? { query: `expectedVersion=${expectedVersion}` } : { json: { ...body, expectedVersion } }

const slow = Layer.effectDiscard(
  Effect.flatMap(TestServer, ({ sql }) => slowDown(sql, "notes", "webhooks", "campaigns"))
).pipe(Layer.provideMerge(World.layer))

layer(slow, { excludeTestServices: true })("every command at a version", (it) => {
  it.effect("is in the walk's table", () =>
    Effect.sync(() => {
      const named = Object.entries(samples).flatMap(([name, { body, query }]) =>
        "expectedVersion" in { ...body, ...query } ? [name] : []
      )
      assert.includeMembers(Object.keys(Object.fromEntries(commands)), named)
    })
  )

  for (const [name, sample] of commands) {
    it.effect(`${name} takes the current version of its record, and has no effect at any other`, function* () {
      const { send } = yield* TestServer
      const { own, restore } = yield* World
      yield* restore(sample, own.projectId)
      const current = isCreate(sample) ? null : 1
      const others = [...(name === "configureWebhook again" ? [null] : []), 1, 2, 2 ** 31, Number.MAX_SAFE_INTEGER]
      for (const version of others.filter((version) => version !== current)) {
        const answer = yield* send(requestOf(sample, own.token, at(sample, version)))
        assert.strictEqual(problemOf(answer, 409, "version_conflict").currentVersion, current)
      }
      const receipt = receiptOfSample(sample, yield* send(requestOf(sample, own.token)))
      assert.deepInclude(receipt, { changed: true, version: isCreate(sample) || isDelete(sample) ? 1 : 2 })
    })
  }

  for (const [record, commands] of Object.entries(records)) {
    it.effect(`on a ${record} is done once of 20 at the same time, on two replicas`, function* () {
      const server = yield* TestServer
      const { own, restore } = yield* World
      const replica = yield* startServer({ DATABASE_URL: server.databaseUrl }, "api")
      const all = Object.values(commands)
      for (let round = 0; round < 4; round++) {
        for (const sample of all.slice(0, 1)) yield* restore(sample, own.projectId)
        const sampleAt = (index: number) => all[(index >> 1) % all.length] ?? assert.fail()
        const answers = yield* atOnce(20, (index) =>
          (index % 2 === 0 ? server : replica).send(requestOf(sampleAt(index), own.token))
        )
        assert.strictEqual(statusesOf(answers)["200"], 1, JSON.stringify(statusesOf(answers)))
        const winner = answers.findIndex(({ status }) => status === 200)
        const done = sampleAt(winner)
        const { version } = receiptOfSample(done, answers[winner] ?? assert.fail())
        for (const [index, answer] of answers.entries()) {
          if (index === winner) continue
          if (isDelete(done)) assert.match(String(codeOf(answer)), /^(note|campaign)_not_found$/)
          else assert.strictEqual(problemOf(answer, 409, "version_conflict").currentVersion, version)
        }
      }
    })
  }
})
