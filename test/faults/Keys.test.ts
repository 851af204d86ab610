/** Rotation of keys while two replicas serve: no request fails, and no stored or issued secret is lost. */
import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { randomBytes } from "node:crypto"
import { describe, it } from "vitest"
import { run } from "../cli/Cli.support.ts"
import { ok, verifies } from "../webhooks/delivery/Deliveries.support.ts"
import { inGoodOrder, launchService, type Service, startService } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { database, project, serviceEnv, unlimited } from "./Projects.support.ts"
import { type Answer, bearer, clients, createClient, listClients, send, stream } from "./Requests.support.ts"
import { listen, openShop } from "./Shop.support.ts"

type Env = Readonly<Record<string, string>>

const newKey = () => randomBytes(32).toString("base64")

const command = async (env: Env, ...args: ReadonlyArray<string>) => {
  const { status, stderr, stdout } = await Effect.runPromise(run(args, { env }))
  assert.deepStrictEqual({ status, stderr }, { status: 0, stderr: "" })
  return stdout
}

/** Starts two replicas behind a balancer, which sends no new requests to a replica that is being replaced. */
const startPair = async (env: Env) => {
  const settings = { WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8" }
  const start = async (env: Env) => ({ service: await startService({ env: { ...settings, ...env } }), inFlight: 0 })
  let serving = [await start(env), await start(env)]
  return {
    /** Sends a request to one of the replicas in turn. */
    balance: async (n: number, request: (replica: Service) => Promise<Answer>): Promise<Answer> => {
      const replica = serving[n % serving.length] ?? assert.fail("No replica serves")
      replica.inFlight++
      return request(replica.service).finally(() => replica.inFlight--)
    },
    /** Replaces the replicas one after another. */
    roll: async (env: Env) => {
      for (const old of serving.slice()) {
        serving = serving.filter((replica) => replica !== old)
        await eventually(() => assert.strictEqual(old.inFlight, 0))
        assert.deepStrictEqual(await old.service.stop(), inGoodOrder)
        serving = [...serving, await start(env)]
      }
    },
    first: () => serving[0]?.service ?? assert.fail("No replica serves")
  }
}

/** Asserts that no request failed; a failure shows the answers. */
const assertServed = ({ answers, failures }: ReturnType<typeof stream>) => {
  assert.deepStrictEqual(failures, [])
  assert.deepStrictEqual(
    answers.filter(({ status }) => status >= 300).map(({ text }) => text),
    []
  )
}

const Answered = Schema.Struct({
  nextCursor: Schema.optionalKey(Schema.NullOr(Schema.String)),
  signingSecret: Schema.optionalKey(Schema.String)
})
const bodyOf = Schema.decodeUnknownSync(Answered)

describe("a SECRET_KEY that opens nothing of what is stored", () => {
  it("stops the start with one line, unless a previous key opens it", async () => {
    const databaseUrl = await database()
    await project(databaseUrl, { channels: [{ id: "chat", providerType: "sandbox", displayName: "Chat" }] })
    const { SECRET_KEY } = serviceEnv(databaseUrl)
    const env = { DATABASE_URL: databaseUrl, SECRET_KEY: newKey() }
    for (const role of ["all", "api", "worker"]) {
      const running = launchService({ env, args: ["--role", role] })
      const { code } = await running.exited
      assert.deepStrictEqual({ code, stdout: running.stdout() }, { code: 1, stdout: "" })
      assert.match(running.stderr(), /^SECRET_KEY does not open what is stored \(1 secret\): [^\n]+\n$/)
      for (const key of [SECRET_KEY, env.SECRET_KEY]) assert.notInclude(running.stderr(), key)
    }
    const successor = await startService({ env: { ...env, SECRET_KEY_PREVIOUS: SECRET_KEY } })
    assert.deepStrictEqual(await successor.stop(), inGoodOrder)
  })
})

describe("SECRET_KEY", () => {
  it("is rotated under load without a failed request, a lost secret or a delivery that can't be verified", async () => {
    const databaseUrl = await database()
    const [old, next] = [serviceEnv(databaseUrl).SECRET_KEY, newKey()]
    const env = (SECRET_KEY: string, ...previous: ReadonlyArray<string>) => ({
      DATABASE_URL: databaseUrl,
      SECRET_KEY,
      ...(previous.length === 0 ? {} : { SECRET_KEY_PREVIOUS: previous.join(",") })
    })
    const pair = await startPair(env(old))
    const receiver = await listen(ok)
    const shop = await openShop(databaseUrl, pair.first(), receiver.url)
    const secret = bodyOf(shop.configured.json).signingSecret
    for (let n = 0; n < 3; n++) await createClient(pair.first().url, shop.token, `client-${n}`, "Robin")

    const secrets = new Set<string | undefined>()
    const load = stream(
      6,
      async (n) => {
        // A cursor of one replica goes to the other.
        if (n % 3 === 0) {
          const { json: body } = await pair.balance(n, ({ url }) => listClients(url, shop.token))
          const path = `${clients}?limit=1&cursor=${bodyOf(body).nextCursor}`
          return pair.balance(n + 1, ({ url }) => send(url + path, { headers: bearer(shop.token) }))
        }
        if (n % 3 === 1) {
          return pair.balance(n, (of) => shop.call(of, "POST", "crm/deals", `deal-number-${n}`, { title: `deal-${n}` }))
        }
        // A configure on either replica answers with the secret that the first configure made.
        const answer = await pair.balance(n, (of) =>
          shop.call(of, "PUT", "integrations/shop/outbound-webhook", `configure-number-${n}`, {
            endpointUrl: receiver.url,
            eventTypes: ["crm.deal.created.v1"],
            expectedVersion: 1
          })
        )
        secrets.add(bodyOf(answer.json).signingSecret)
        return answer
      },
      120
    )

    // Every process has the new key before any of them seals with it.
    await pair.roll(env(old, next))
    await pair.roll(env(next, old))
    const resealed = await command(env(next, old), "secrets", "reseal", "--json")
    assert.deepStrictEqual(JSON.parse(resealed), { resealed: 1, failed: 0 })
    assert.match(await command(env(next, old), "doctor"), /ok +keys +SECRET_KEY opens what is stored/)
    await pair.roll(env(next))
    await load.stop()

    assertServed(load)
    assert.deepStrictEqual([...secrets], [secret])
    await eventually(async () => assert.strictEqual(await shop.inState("delivered"), await shop.deals()))
    assert.isAbove(receiver.hits.length, 0)
    for (const hit of receiver.hits) assert.isTrue(verifies(secret ?? "", hit))
  })
})

describe("an API key", () => {
  it("that many callers use is rotated without a failed request, and ends on every replica after the grace", async () => {
    const databaseUrl = await database()
    const env = serviceEnv(databaseUrl)
    const pair = await startPair(env)
    const old = await project(databaseUrl, { project: { id: "acme", name: "Acme", rateLimits: unlimited } })
    let token = old
    const load = stream(6, (n) =>
      pair.balance(n >> 1, ({ url }) =>
        n % 2 === 0 ? listClients(url, token) : createClient(url, token, `client-${n}`, "Robin")
      )
    )
    const Issued = Schema.decodeUnknownSync(Schema.Struct({ token: Schema.String }))
    const rotated = await command(env, "token", "rotate", "--key", old.slice(3, 15), "--grace", "5s", "--json")
    const answered = load.answers.length
    // Callers continue with the old token for a while.
    await eventually(() => assert.isAbove(load.answers.length, answered + 50))
    token = Issued(JSON.parse(rotated)).token
    await eventually(async () => {
      for (const n of [0, 1]) {
        const { status } = await pair.balance(n, ({ url }) => listClients(url, old))
        assert.strictEqual(status, 401)
      }
    })
    await load.stop()
    assertServed(load)
  })
})
