/** Webhooks of a project's installations, receivers with given answers, and the stored rows of both. */
import { layer } from "../../support/Vitest.ts"
import { Effect, Schema } from "effect"
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import { Webhook } from "standardwebhooks"
import { eventTypes as everyType } from "../../../src/api/integrations/Events.ts"
import { callsOf, pipelines } from "../../contract/Deals.support.ts"
import { callsOf as webhookOf } from "../../contract/Webhooks.support.ts"
import { secretOf } from "../../support/ContractAnswers.ts"
import { type Environment, type Parts, startServer, TestServer } from "../../support/TestServer.ts"
import { untilRows } from "../../support/Waiting.ts"

/** A received delivery. */
export interface Hit {
  readonly at: number
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly response: ServerResponse
}

export interface Receiver {
  readonly port: number
  readonly url: string
  readonly hits: ReadonlyArray<Hit>
  /** Current and maximum number of requests without an answer. */
  readonly open: () => number
  readonly mostOpen: () => number
}

/** The answer of a receiver to a delivery; `n` counts from 0. */
export type Answering = (hit: Hit, n: number) => void

/** Answers with a status and headers. */
export const status =
  (code: number, headers: Readonly<Record<string, string>> = {}): Answering =>
  ({ response }) =>
    void response.writeHead(code, headers).end("ok")

export const ok = status(200)

/** Answers 200 after a delay in milliseconds. */
export const slowly =
  (millis: number): Answering =>
  ({ response }) =>
    void setTimeout(() => response.end(), millis)

export const hang: Answering = () => {}

export const reset: Answering = ({ response }) => void response.socket?.resetAndDestroy()

/** Answers attempts in turn, each over a new connection. */
export const inTurn =
  (...answers: ReadonlyArray<Answering>): Answering =>
  (hit, n) => {
    hit.response.setHeader("connection", "close")
    answers[n]?.(hit, n)
  }

/** Starts a receiver on loopback, which ends with the scope. */
export const receiver = (answer: Answering = ok) =>
  Effect.acquireRelease(
    Effect.callback<Receiver & { readonly close: () => void }>((resume) => {
      const hits: Array<Hit> = []
      const count = { open: 0, most: 0 }
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("error", () => {})
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const hit = {
            at: Date.now(),
            path: request.url ?? "",
            headers: request.headers,
            body: Buffer.concat(chunks).toString("utf8"),
            response
          }
          count.most = Math.max(count.most, ++count.open)
          let answered = false
          const end = () => {
            if (!answered) count.open--
            answered = true
          }
          response.once("finish", end).once("close", end)
          hits.push(hit)
          answer(hit, hits.length - 1)
        })
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(
          Effect.succeed({
            port,
            url: `http://127.0.0.1:${port}/hook`,
            hits,
            open: () => count.open,
            mostOpen: () => count.most,
            close: () => {
              server.close()
              server.closeAllConnections()
            }
          })
        )
      })
    }),
    ({ close }) => Effect.sync(close)
  )

/** Settings that permit calls to loopback, and with which a failing delivery is dead within a second. */
export const settings = {
  WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8",
  WEBHOOK_RETRY_SCHEDULE: "50ms,100ms",
  WEBHOOK_TIMEOUT: "5s"
}

/** Declares tests that share a server with these settings. */
export const layerOf = (environment: Environment = {}, role?: Parameters<typeof startServer>[1]) =>
  layer(TestServer.layer({ ...settings, ...environment }, role), { excludeTestServices: true })

export const serve = (environment: Environment = {}, role?: Parameters<typeof startServer>[1]) =>
  startServer({ ...settings, ...environment }, role)

/** Opens a project with deals, and installations without webhooks. */
export const open = Effect.fnUntraced(function* (
  server: TestServer["Service"],
  installations: ReadonlyArray<string> = ["shop"],
  parts: Parts = {}
) {
  const seeded = yield* server.seed({
    pipelines,
    ...parts,
    project: { defaultPipelineId: "sales", ...parts.project },
    installations: installations.map((id) => ({ id, name: id }))
  })
  const { projectId } = seeded
  const of = (id: string) => webhookOf(server, seeded, id)
  const configure = (
    id: string,
    endpointUrl: string,
    expectedVersion: number | null,
    eventTypes: ReadonlyArray<string> = everyType
  ) => of(id).configure({ endpointUrl, eventTypes, expectedVersion })
  const { deliveries, setHealth } = of("shop")

  return {
    ...callsOf(server, seeded),
    sql: server.sql,
    configure,
    /** Configures a new webhook; returns its secret. */
    subscribe: (id: string, endpointUrl: string, eventTypes?: ReadonlyArray<string>) =>
      Effect.map(configure(id, endpointUrl, null, eventTypes), (answer) => secretOf(answer).signingSecret),
    rotate: (id: string, expectedVersion: number) => of(id).rotated(expectedVersion),
    retry: (id: string, deliveryId: string) => of(id).retry(deliveryId),
    deliveries,
    setHealth,
    health: (id = "shop") => of(id).health,
    webhook: (id = "shop") => Effect.map(of(id).found, ({ enabled, version }) => ({ enabled, version })),
    /** Adds pending deliveries of the project's first event. */
    queue: (count: number, age = "0 seconds") =>
      Effect.orDie(server.sql`
        INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
        SELECT project_id, new_id('dlv', now()), installation_id, event_id, at, at
        FROM deliveries first, generate_series(1, ${count}::int), LATERAL (SELECT now() - ${age}::interval AS at) AS past
        WHERE project_id = ${projectId} AND id = (SELECT min(id) FROM deliveries WHERE project_id = ${projectId})`),
    /** Waits until no delivery is open. */
    finished: untilRows(
      Effect.orDie(server.sql`
        SELECT FROM deliveries WHERE project_id = ${projectId} AND status IN ('pending', 'delivering')`),
      (rows) => rows.length === 0
    )
  }
})

/** Opens a project whose webhook `shop` has a receiver of its own. */
export const openShop = Effect.fnUntraced(function* (
  server: TestServer["Service"],
  answer: Answering = ok,
  eventTypes?: ReadonlyArray<string>
) {
  const project = yield* open(server)
  const to = yield* receiver(answer)
  return { ...project, to, secret: yield* project.subscribe("shop", to.url, eventTypes) }
})

const decodeBody = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Record(Schema.String, Schema.Unknown)))

/** Decodes the body of a hit. */
export const bodyOf = ({ body }: Hit) => decodeBody(body)

/** Returns the headers of a request that Standard Webhooks defines. */
const signed = ({ headers }: Hit) => ({
  "webhook-id": String(headers["webhook-id"]),
  "webhook-timestamp": String(headers["webhook-timestamp"]),
  "webhook-signature": String(headers["webhook-signature"])
})

/** Whether one of a hit's signatures is by this secret, whatever its time. */
export const isSignedWith = (secret: string, hit: Hit): boolean => {
  const { "webhook-id": id, "webhook-signature": signatures, "webhook-timestamp": seconds } = signed(hit)
  return signatures.split(" ").includes(new Webhook(secret).sign(id, new Date(Number(seconds) * 1000), hit.body))
}

/** Whether one of a hit's signatures is by this secret, and its time is within the last five minutes. */
export const verifies = (secret: string, hit: Hit): boolean => {
  try {
    new Webhook(secret).verify(hit.body, signed(hit))
    return true
  } catch {
    return false
  }
}
