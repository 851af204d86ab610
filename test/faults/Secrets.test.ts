/**
 * No secret is in what the service prints, exports, shows and answers, and none is unencrypted in its database, after every
 * mutation, every command that lists something, hostile requests and kills of PostgreSQL and Redis (contract §3, §15).
 */
import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { randomBytes } from "node:crypto"
import { describe, it } from "vitest"
import { run } from "../cli/Cli.support.ts"
import { pagesOf } from "../console/Console.support.ts"
import { ended, freePort, inGoodOrder, launchService, startService } from "../support/Process.ts"
import { requires } from "../support/Programs.ts"
import { leaksIn } from "../support/Secrets.ts"
import { eventually } from "../support/Waiting.ts"
import { startCollector } from "./Collector.support.ts"
import { makeCalls, mutations } from "./Mix.calls.support.ts"
import { type Caller, makeLedger, openCallers, type Scene } from "./Mix.callers.support.ts"
import { dump, givenSecrets, startParts } from "./Mix.parts.support.ts"
import { conversations, openProject } from "./Mix.project.support.ts"
import { secrets as ofProviders } from "./Providers.support.ts"
import { type Answer, bearer, type Call, send } from "./Requests.support.ts"

const decodeToken = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ token: Schema.String })))
const decodeLink = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ url: Schema.String })))

const api = "/api/v1/developer"

const operate = (...[args, options]: Parameters<typeof run>) => Effect.runPromise(run(args, options))

/** Returns requests that have a secret in the wrong place. */
const misplaced = (token: string, secret: string): ReadonlyArray<readonly [path: string, call: Call]> => {
  const headers = bearer(token)
  const post = { method: "POST", headers: { ...headers, "idempotency-key": "misplaced-secret" } }
  return [
    [`/${token}`, {}],
    [`/${secret}`, { headers: { "x-request-id": token } }],
    [`/${encodeURIComponent(secret)}`, { headers: { "x-request-id": secret, "x-api-key": secret } }],
    [`${api}/crm/clients/${token}`, { headers }],
    [`${api}/crm/clients/${token}%00`, { headers }],
    [`${api}/crm/clients?cursor=${token}`, { headers }],
    [`${api}/crm/clients?token=${token}&status=${encodeURIComponent(secret)}`, { headers }],
    [`${api}/crm/clients?${token}=1&limit=${encodeURIComponent(secret)}`, { headers }],
    [`${api}/crm/clients`, { headers: { authorization: token } }],
    [`${api}/crm/clients`, { headers: { authorization: `Basic ${token}` } }],
    [`${api}/crm/clients`, { headers: bearer(`${token}0`) }],
    [`${api}/crm/clients`, { headers: bearer(secret) }],
    [`${api}/crm/clients`, { headers: { ...headers, "x-request-id": token }, method: "PUT" }],
    [`${api}/crm/clients`, { headers: { ...headers, "user-agent": token, tracestate: `a=${token}`, baggage: token } }],
    [`${api}/crm/clients`, { headers: { ...headers, traceparent: token, referer: `http://localhost/${token}` } }],
    [`${api}/crm/clients`, { ...post, headers: { ...post.headers, "content-type": token } }],
    [`${api}/crm/clients`, { ...post, headers: { ...headers, "idempotency-key": `${token} ` }, json: {} }],
    [`${api}/crm/clients`, { ...post, json: { [token]: secret, displayName: [secret], email: token } }],
    [
      `${api}/crm/clients`,
      { ...post, json: { displayName: token.repeat(10), tags: [secret, secret], [secret]: token } }
    ],
    [`${api}/crm/clients`, { ...post, json: token }],
    [`${api}/crm/deals`, { ...post, json: { title: "Deal", pipelineId: token } }],
    ...[secret, "crm.deal.created.v1"].map((eventType): readonly [string, Call] => [
      `${api}/integrations/steady/outbound-webhook`,
      {
        ...post,
        method: "PUT",
        json: { endpointUrl: `https://user:${token}@example.com/`, eventTypes: [eventType], expectedVersion: null }
      }
    ])
  ]
}

describe("secrets", () => {
  requires("redis")

  it("are in nothing that is printed, exported, shown and answered, and not in clear in the database", async () => {
    const collector = await startCollector()
    const adminPort = String(await freePort())
    const parts = await startParts(
      {
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        LOG_LEVEL: "trace",
        LOG_FORMAT: "json",
        ADMIN_PORT: "0"
      },
      ["api-1", "worker-1"]
    )
    const env = { ...parts.env, ADMIN_PORT: adminPort, LOG_FORMAT: "pretty" }
    const service = await startService({ env })
    const project = await openProject(parts.databaseUrl)
    const { token } = project

    /** The texts that were read, by their source. */
    const texts = new Map<string, string>()
    const answers: Array<Answer> = []
    let n = 0
    const ask = async (url: string, call: Call = {}) => {
      const answer = await send(url, call)
      answers.push(answer)
      return answer
    }
    const command = async (
      args: ReadonlyArray<string>,
      overrides: Readonly<Record<string, string>> = {},
      stdin = ""
    ) => {
      const { stderr, stdout } = await operate(args, { env: { ...env, ...overrides }, stdin })
      texts.set(`command ${n++} ${args[0]?.slice(0, 10)} ${args[1]?.slice(0, 10)}`, stdout + stderr)
      return stdout
    }

    // Every mutation, while the database and the limiter are killed.
    const commandAnswers: Array<Answer> = []
    const scene: Scene = {
      env: parts.env,
      project,
      calls: makeCalls(parts, token, (answer) => commandAnswers.push(answer)),
      ledger: makeLedger(),
      mutations
    }
    const turns = async (caller: Caller) => {
      for (let n = 0; n < 3; n++) await caller(n)
    }
    const { operator, others, retries } = await openCallers(scene)
    await Promise.all([
      ...[retries, operator, ...others].map(turns),
      parts.run([
        ["worker-1", 100],
        ["postgres", 300],
        ["redis", 500]
      ])
    ])
    await parts.areReady()
    await eventually(async () => assert.isAbove((await project.failures()).dead.length, 0))

    // These two commands print a secret by design.
    const { stdout: issued } = await operate(["token", "rotate", "--key", token.slice(3, 15), "--json"], { env })
    const rotated = decodeToken(issued).token
    const { stdout: linked } = await operate(["console", "--json"], { env })
    const link = new URL(decodeLink(linked).url)
    const webhookSecrets = [...scene.ledger.secrets.values()].flatMap((secrets) => [...secrets])
    const redisPassword = randomBytes(24).toString("base64url")
    const wrongPassword = randomBytes(24).toString("base64url")
    const [webhookSecret = assert.fail("No answer had the secret of a webhook")] = webhookSecrets

    // A provider that echoes what it received.
    project.provider.answerWith(({ headers, response }) =>
      response.writeHead(400).end(JSON.stringify({ ok: false, error_code: 400, description: ofProviders, headers }))
    )
    for (const [kind, conversation] of Object.entries(conversations)) {
      await ask(`${service.url}${api}/messaging/conversations/${conversation}/messages`, {
        method: "POST",
        headers: { ...bearer(rotated), "idempotency-key": `refused-${kind}` },
        json: { text: "Refused" }
      })
    }
    for (const [path, call] of misplaced(token, webhookSecret)) {
      for (const { url } of [service, parts.api()]) {
        const { status } = await ask(`${url}${path}`, call)
        assert.isBelow(status, 500, path)
      }
    }

    // The output for operators.
    const [dead = assert.fail("Nothing is dead")] = (await project.failures()).dead
    // The page of a link repeats its code to whoever has it; the URL and the form are logged by nobody.
    assert.strictEqual((await send(link.href)).status, 200)
    const form = { method: "POST", body: link.searchParams, redirect: "manual" } as const
    const entered = await fetch(new URL(link.pathname, link), form)
    const cookie = entered.headers.get("set-cookie")?.split(";")[0] ?? assert.fail("not signed in")
    const [shown = assert.fail("There is no message or no campaign")] = await project.query(
      `SELECT messages.id AS message, campaigns.id AS campaign FROM messages JOIN campaigns USING (project_id) WHERE project_id = '${project.id}' LIMIT 1`
    )
    const records = { installation: "steady", message: String(shown["message"]), campaign: String(shown["campaign"]) }
    for (const path of [...pagesOf({ dead, projectId: project.id }, records), "/metrics"]) {
      const { status } = await ask(`${link.origin}${path}`, { headers: { cookie } })
      assert.strictEqual(status, 200, path)
    }
    const of = ["--project", project.id]
    for (const args of [
      ["doctor"],
      ["doctor", "--json"],
      ["token", "list", ...of],
      ["webhooks", "list", ...of, "--json"],
      ["webhooks", "test", ...of, "--installation", "steady"],
      ["deliveries", "list", ...of, "--json"],
      ["deliveries", "show", ...of, "--delivery", dead.id, "--json"],
      ["messages", "list", ...of],
      ["audit", "list", ...of, "--json"],
      ["secrets", "reseal"],
      ["token", "revoke", "--key", rotated],
      [token],
      ["doctor", `--${webhookSecret}`]
    ]) {
      await command(args)
    }
    const port = String(await freePort())
    const away = new URL(parts.databaseUrl)
    away.port = port
    const refused = new URL(parts.databaseUrl)
    refused.password = wrongPassword
    const redisAway = { REDIS_URL: `redis://:${redisPassword}@127.0.0.1:${port}` }
    await command(["doctor"], { DATABASE_URL: away.href, ...redisAway })
    await command(["doctor"], { DATABASE_URL: refused.href, ...redisAway })
    const channel = { id: "http", providerType: "http", displayName: "Http" }
    await command(
      ["project", "apply", "-"],
      {},
      JSON.stringify({
        project: { id: project.id, name: "Acme", [webhookSecret]: 1 },
        channels: [
          { ...channel, config: { url: "nowhere", signingSecret: webhookSecret, [token]: 1 } },
          { ...channel, id: "telegram", providerType: "telegram", config: { token: `${ofProviders.token} ` } }
        ]
      })
    )

    // Processes that fail to start, and one without its limiter.
    const limited = await startService({ env: { ...env, ADMIN_PORT: "0", ...redisAway } })
    await ask(`${limited.url}${api}/crm/clients`, { headers: bearer(token) })
    const failing = [away.href, refused.href].map((url) => launchService({ env: { ...env, DATABASE_URL: url } }))
    await Promise.all(failing.map((running) => ended(running)))
    for (const running of [service, limited]) assert.deepStrictEqual(await running.stop(), inGoodOrder)
    for (const [n, running] of [service, limited, ...failing].entries()) {
      texts.set(`process ${n}`, running.stdout() + running.stderr())
    }
    texts.set("processes and PostgreSQL", await parts.printed())
    for (const [n, { path, text }] of collector.received.entries()) texts.set(`collector ${path} ${n}`, text)
    for (const [n, { text }] of answers.entries()) texts.set(`answer ${n}`, text)
    // A secret is answered once, by the first answer to the command that created it or requested it.
    for (const [n, { headers, text }] of commandAnswers.entries()) {
      const isFirst = headers["idempotent-replayed"] === undefined
      texts.set(`answer to a command ${n}`, isFirst ? text.replace(/"signingSecret":"[^"]+"/, "") : text)
    }
    for (const [table, text] of await dump(project.query)) texts.set(`table ${table}`, text)

    const secrets = new Map([
      ...givenSecrets(parts.databaseUrl),
      ["a token", token],
      ["the secret of a token", token.slice(16)],
      ["a new token", rotated],
      ["the password of Redis", redisPassword],
      ["a wrong password", wrongPassword],
      ["the code of a link to the console", link.searchParams.get("code") ?? assert.fail("no code")],
      ["a session of the console", cookie.slice(cookie.indexOf("=") + 1)],
      ...webhookSecrets.map((secret, n) => [`secret ${n} of a webhook`, secret] as const)
    ])
    assert.deepStrictEqual(
      [...texts].flatMap(([where, text]) => leaksIn(text, secrets).map((name) => `${name} in ${where}`)),
      []
    )
    // Checks that the searched texts are complete: one process prints in each format.
    for (const from of ["process 0", "processes and PostgreSQL"]) assert.include(texts.get(from), "[redacted]")
    assert.isAbove(collector.received.filter(({ text }) => text.includes('"spanId"')).length, 10)
    assert.include(texts.get("table api_keys"), token.slice(3, 15))
    assert.match(texts.get("table webhook_secrets") ?? "", /\\x[0-9a-f]{40}/)
    assert.isTrue(commandAnswers.some(({ text }) => text.includes("whsec_")))
  }, 240_000)
})
