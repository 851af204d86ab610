/**
 * Ids of another project and ids that do not exist cost the service the same work, so that the time of an answer does
 * not distinguish them either (contract §2). `SAMPLES=2000` compares the times of that many requests of each kind.
 */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { HttpApi } from "effect/http-api"
import { Agent } from "node:http"
import { Api } from "../../src/api/Api.ts"
import { memberNames } from "../../src/api/schema/Shape.ts"
import { median } from "../bench/Figures.ts"
import { type Change, referring, requestOf } from "../contract/Requests.ts"
import { missingOf, type Reference, type Sample } from "../contract/Sample.ts"
import { samples, World } from "../contract/Samples.ts"
import { services, Wire } from "../contract/Wire.support.ts"
import { codeOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { TestServer } from "../support/TestServer.ts"
import { send } from "./Requests.support.ts"

const timed = Number(process.env["SAMPLES"] ?? 0)

/** Two requests that differ only in an id. */
interface Pair {
  readonly name: string
  readonly sample: Sample
  readonly foreign: Change
  readonly missing: Change
}

/** Returns an id that no project has, of the same length as the foreign one. */
const absentOf = (reference: Reference) =>
  reference.form === "uuid" ? missingOf(reference) : reference.foreign.replaceAll(/[a-z]/g, "x")

const patchCampaign = samples["patchCampaign"] ?? assert.fail()
const everybody = { contactStatus: "all", providerTypes: [], requiredTags: [], stageIds: [] }

/** Commands of campaigns whose bodies have ids. */
const commands: ReadonlyArray<readonly [member: string, foreign: string, body: (id: string) => object]> = [
  ["segmentId", "seg_foreign", (id) => ({ operation: "freeze_audience", filter: { ...everybody, segmentId: id } })],
  ["channelId", "chan_foreign", (id) => ({ operation: "bind_sender", channelId: id })],
  ["templateId", "tpl_foreign", (id) => ({ operation: "bind_template", templateId: id, templateVersion: 1 })]
]

const pairs: ReadonlyArray<Pair> = [
  ...Object.entries(samples).flatMap(([name, sample]) =>
    (sample.references ?? []).map((reference) => ({
      name: `${name} ${reference.at.join("/")}`,
      sample,
      foreign: referring(sample, [reference], ({ foreign }) => foreign),
      missing: referring(sample, [reference], absentOf)
    }))
  ),
  ...commands.map(([member, foreign, body]) => ({
    name: `patchCampaign body/${member}`,
    sample: patchCampaign,
    foreign: { json: body(foreign) },
    missing: { json: body(foreign.replaceAll(/[a-z]/g, "x")) }
  }))
]

/** Members that reference no record, or whose unknown ids are ignored. */
const others = new Set([
  "body/externalId",
  "body/stageIds",
  "body/loyaltyLevelIds",
  "body/readyStampOfferIds",
  // Compared with the project of the token before anything is read.
  "body/expectedProjectId",
  "query/expectedProjectId"
])

/** Seeds records for the references above in the other project. */
const moreForeign = Effect.gen(function* () {
  const { seed } = yield* TestServer
  yield* seed({
    segments: [{ id: "seg_foreign", name: "Foreign", clientIds: [] }],
    templates: [{ id: "tpl_foreign", version: 1, name: "Foreign", body: "Hello" }]
  })
})

/** Returns the statements of a request, without those that look up its credential. */
const statementsOf = <E, R>(request: Effect.Effect<Answer, E, R>) =>
  Effect.gen(function* () {
    const wire = yield* Wire
    wire.take()
    const answer = yield* request
    const sent = wire.take().map(({ statements }) => statements.filter((sql) => !/\bapi_keys\b/.test(sql)))
    return { code: codeOf(answer), sent: sent.filter((statements) => statements.length > 0) }
  })

/** Returns the normal deviate of the Mann-Whitney test: 0 if neither of two samples tends to be larger. */
const deviate = (a: ReadonlyArray<number>, b: ReadonlyArray<number>) => {
  const all = [...a.map((value) => ({ value, first: 1 })), ...b.map((value) => ({ value, first: 0 }))]
  const ranks = all
    .toSorted((x, y) => x.value - y.value)
    .reduce((sum, { first }, index) => sum + first * (index + 1), 0)
  const mean = (a.length * (all.length + 1)) / 2
  return (ranks - mean) / Math.sqrt((a.length * b.length * (all.length + 1)) / 12)
}

layer(services, { excludeTestServices: true })("an id of another project", (it) => {
  it.effect("is compared with a missing one wherever a request has an id", () =>
    Effect.sync(() => {
      const compared = new Set(pairs.map(({ name }) => name))
      HttpApi.reflect(Api, {
        onGroup: () => {},
        onEndpoint: ({ endpoint: { identifier, params, payload, query } }) => {
          const bodies = [...payload.values()].flatMap(({ schemas }) => schemas)
          const parts = { path: [params], query: [query], body: bodies }
          for (const [part, schemas] of Object.entries(parts)) {
            for (const member of memberNames(schemas)) {
              const at = `${part}/${member}`
              if (!/Ids?$/.test(member) || others.has(at)) continue
              assert.isTrue(compared.has(`${identifier} ${at}`), `${identifier} ${at}`)
            }
          }
        }
      })
    })
  )

  for (const { foreign, missing, name, sample } of pairs) {
    it.effect(`costs the same statements as a missing one: ${name}`, function* () {
      const { ask, own } = yield* World
      yield* moreForeign
      // The first round prepares the statements.
      for (const round of [0, 1]) {
        const of = yield* statementsOf(ask(sample, own, foreign))
        const without = yield* statementsOf(ask(sample, own, missing))
        assert.match(String(of.code), /_not_found$|^webhook_reference_invalid$/)
        assert.isNotEmpty(of.sent)
        if (round > 0) assert.deepStrictEqual(of, without)
      }
    })
  }

  if (timed > 0) {
    it.effect(
      "takes as long as a missing one, by a rank test",
      function* () {
        const { url } = yield* TestServer
        const { own, restore } = yield* World
        yield* moreForeign
        const agent = new Agent({ keepAlive: true, maxSockets: 1 })
        yield* Effect.addFinalizer(() => Effect.sync(() => agent.destroy()))
        const timeOf = ({ sample }: Pair, change: Change) =>
          Effect.promise(async () => {
            const { headers, json, key, method = "GET", path, token } = requestOf(sample, own.token, change)
            const { millis } = await send(`${url}${path}`, {
              method,
              agent,
              json,
              headers: {
                ...headers,
                authorization: `Bearer ${token}`,
                ...(key === undefined ? {} : { "idempotency-key": key })
              }
            })
            return millis
          })
        const lines: Array<string> = []
        let largest = 0
        for (const pair of pairs) {
          yield* restore(pair.sample, own.projectId)
          const [foreign, missing]: [Array<number>, Array<number>] = [[], []]
          for (let n = -20; n < timed; n++) {
            // Each kind is first equally often.
            const order = n % 2 === 0 ? [foreign, missing] : [missing, foreign]
            for (const times of order) {
              const millis = yield* timeOf(pair, times === foreign ? pair.foreign : pair.missing)
              if (n >= 0) times.push(millis)
            }
          }
          const z = deviate(foreign, missing)
          largest = Math.max(largest, Math.abs(z))
          lines.push(
            `${pair.name}: ${median(foreign).toFixed(3)} and ${median(missing).toFixed(3)} ms, z ${z.toFixed(2)}`
          )
        }
        console.log(`medians of ${timed} foreign and as many missing ids\n${lines.join("\n")}`)
        // By chance, one in a hundred million runs has a pair beyond this.
        assert.isBelow(largest, 6)
      },
      1_800_000
    )
  }
})
