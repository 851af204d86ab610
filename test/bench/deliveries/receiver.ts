/**
 * The endpoints, in their own process: each answers 200 at once. It records the time of each arrival, and checks
 * the signatures of a sample.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { Webhook } from "standardwebhooks"
import type { Arrived, ReceiverPlan } from "./Protocol.ts"

/** One in this many signatures is checked. */
const sample = 50

const plan = (text: string): ReceiverPlan => JSON.parse(text)
const { endpoints, secret } = plan(process.argv[2] ?? "{}")
const webhook = new Webhook(secret)

let seen = new Map<string, number>()
let repeats = 0
let checked = 0
let forged = 0
/** Start of the monotonic clock in milliseconds since 1970. Wall time has no fractions of a millisecond. */
let origin = 0

const forget = () => {
  seen = new Map()
  repeats = checked = forged = 0
  const before = Date.now()
  while (Date.now() === before);
  origin = Date.now() - performance.now()
}

const header = ({ headers }: IncomingMessage, name: string) => String(headers[name])

const check = (request: IncomingMessage, body: string) => {
  const headers = {
    "webhook-id": header(request, "webhook-id"),
    "webhook-timestamp": header(request, "webhook-timestamp"),
    "webhook-signature": header(request, "webhook-signature")
  }
  checked++
  try {
    webhook.verify(body, headers)
  } catch {
    forged++
  }
}

const take = (request: IncomingMessage, answer: () => void) => {
  const id = header(request, "webhook-id")
  if (seen.has(id)) repeats++
  else seen.set(id, origin + performance.now())
  if (seen.size % sample === 0) {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => check(request, Buffer.concat(chunks).toString("utf8")))
  } else {
    request.resume()
  }
  request.on("end", answer)
}

const arrived = (): Arrived => {
  const times = [...seen.values()]
  return { count: seen.size, first: times[0] ?? 0, last: times.at(-1) ?? 0, repeats, checked, forged }
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

/** Handlers of the benchmark's requests; a change is made before the answer is sent. */
const control: Readonly<Record<string, () => ReadonlyArray<number> | Arrived | null>> = {
  "/ports": () => ports,
  "/arrived": arrived,
  "/forget": () => {
    forget()
    return null
  }
}

forget()
const port = await listen((request, response) => {
  response.end(JSON.stringify(control[request.url ?? ""]?.() ?? null))
})
process.stdout.write(`listening on http://127.0.0.1:${port}\n`)
