/**
 * The endpoints, in their own process: each answers 200 at once. It records the time from the call to the arrival, and
 * checks the signatures of a sample.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { Webhook } from "standardwebhooks"
import { quantile } from "../Figures.ts"

/** The argument of the receiver. */
export interface ReceiverPlan {
  /** Number of endpoints that answer, each on its own port as real ones are different hosts. */
  readonly endpoints: number
  /** The secret that verifies signatures. */
  readonly secret: string
}

/** The arrivals since the last reset of the receiver. */
export interface Arrived {
  /** Number of distinct deliveries. */
  readonly count: number
  /** Time of the first, in milliseconds since 1970. */
  readonly first: number
  /** Number of invalid signatures in a sample. */
  readonly forged: number
  /** Quantiles of the milliseconds from the call to the arrival. */
  readonly p50: number
  readonly p95: number
}

/** One in this many signatures is checked. */
const sample = 50

const plan = (text: string): ReceiverPlan => JSON.parse(text)
const { endpoints, secret } = plan(process.argv[2] ?? "{}")
const webhook = new Webhook(secret)

let [seen, lags, first, forged] = [new Set<string>(), new Array<number>(), 0, 0]

const header = ({ headers }: IncomingMessage, name: string) => String(headers[name])

const check = ({ headers }: IncomingMessage, body: string) => {
  try {
    webhook.verify(body, Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)])))
  } catch {
    forged++
  }
}

/** Returns the milliseconds since a call, whose trace id is its time. The clock is the same in all processes of the machine. */
const millisSince = (traceparent: string) =>
  Number(process.hrtime.bigint() - BigInt(`0x${traceparent.slice(3, 35)}`)) / 1_000_000

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

const port = await listen(({ url }, response) => {
  if (url === "/forget") [seen, lags, forged] = [new Set(), [], 0]
  // Sorted on request alone, as `/arrived` is asked many times a second.
  const [p50, p95] = url === "/lag" ? [quantile(lags, 0.5), quantile(lags, 0.95)] : [0, 0]
  const arrived: Arrived = { count: seen.size, first, forged, p50, p95 }
  response.end(JSON.stringify(url === "/ports" ? ports : arrived))
})
process.stdout.write(`listening on http://127.0.0.1:${port}\n`)
