/**
 * The endpoints, in their own process: each answers 200 at once. It records the time from the call to the arrival, and
 * checks the signatures of a sample.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { Webhook } from "standardwebhooks"
import { quantile } from "../Figures.ts"
import { type Arrived, type Lag, millisSince, type ReceiverPlan } from "./Protocol.ts"

/** One in this many signatures is checked. */
const sample = 50

const plan = (text: string): ReceiverPlan => JSON.parse(text)
const { endpoints, secret } = plan(process.argv[2] ?? "{}")
const webhook = new Webhook(secret)

let seen = new Set<string>()
let lags: Array<number> = []
let first = 0
let forged = 0

const forget = () => {
  seen = new Set()
  lags = []
  forged = 0
}

const header = ({ headers }: IncomingMessage, name: string) => String(headers[name])

const check = (request: IncomingMessage, body: string) => {
  const headers = {
    "webhook-id": header(request, "webhook-id"),
    "webhook-timestamp": header(request, "webhook-timestamp"),
    "webhook-signature": header(request, "webhook-signature")
  }
  try {
    webhook.verify(body, headers)
  } catch {
    forged++
  }
}

const take = (request: IncomingMessage, answer: () => void) => {
  const id = header(request, "webhook-id")
  if (seen.size === 0) first = Date.now()
  if (!seen.has(id)) lags.push(millisSince(header(request, "traceparent")))
  seen.add(id)
  if (seen.size % sample === 0) {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => check(request, Buffer.concat(chunks).toString("utf8")))
  } else {
    request.resume()
  }
  request.on("end", answer)
}

const lag = (): Lag => ({ p50: quantile(lags, 0.5), p95: quantile(lags, 0.95) })

const listen = (handle: (request: IncomingMessage, response: ServerResponse) => void) =>
  new Promise<number>((resolve) => {
    const server = createServer({ keepAliveTimeout: 60_000 }, handle).listen(0, "127.0.0.1", () => {
      const address = server.address()
      resolve(typeof address === "object" && address !== null ? address.port : 0)
    })
  })

const ports = await Promise.all(
  Array.from({ length: endpoints }, () => listen((request, response) => take(request, () => response.end())))
)

/** Handlers of the benchmark's requests; a change is made before the answer is sent. */
const control: Readonly<Record<string, () => ReadonlyArray<number> | Arrived | Lag | null>> = {
  "/ports": () => ports,
  "/arrived": () => ({ count: seen.size, first, forged }),
  "/lag": lag,
  "/forget": () => {
    forget()
    return null
  }
}

const port = await listen((request, response) => {
  response.end(JSON.stringify(control[request.url ?? ""]?.() ?? null))
})
process.stdout.write(`listening on http://127.0.0.1:${port}\n`)
