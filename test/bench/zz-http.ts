import { Effect, Redacted } from "effect"
import { NodeServices } from "@effect/platform-node"
import * as Endpoints from "./deliveries/Endpoints.ts"
import { Agent, request } from "node:http"
import { connect } from "node:net"
const program = Effect.gen(function* () {
  const endpoints = yield* Endpoints.make(Redacted.make("postgres://x"), 50)
  const body = "x".repeat(700),
    buf = Buffer.from(body)
  const agent = new Agent({ keepAlive: true, maxFreeSockets: 8 })
  const urls = endpoints.urls.map((u) => new URL(u))
  const n = 30000
  const measure = (name: string, one: (i: number) => Promise<unknown>) =>
    Effect.promise(async () => {
      const c = process.cpuUsage(),
        t = performance.now()
      let next = 0
      await Promise.all(
        Array.from({ length: 150 }, async () => {
          while (next < n) await one(next++)
        })
      )
      const u = process.cpuUsage(c)
      console.log(
        name.padEnd(24),
        "cpu µs",
        ((u.user + u.system) / n).toFixed(1),
        "user",
        (u.user / n).toFixed(1),
        "sys",
        (u.system / n).toFixed(1),
        "wall/s",
        ((n * 1000) / (performance.now() - t)).toFixed(0)
      )
    })
  const hs = (i: number) => ({
    "content-type": "application/json",
    "user-agent": "bench",
    "webhook-id": "dlv_" + i,
    "webhook-timestamp": "1234567890",
    "webhook-signature": "v1,abcdefghijklmnopqrstuvwxyz0123456789",
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "accept-encoding": "identity"
  })
  const plain = (opts: any, body: any) =>
    new Promise<number>((resolve, reject) => {
      const r = request(opts, (res) => {
        res.resume().on("end", () => resolve(res.statusCode!))
      })
      r.on("error", reject).end(body)
    })
  const free = new Map<number, any[]>()
  const raw = (i: number) =>
    new Promise<number>((resolve) => {
      const u = urls[i % 50]!
      const port = Number(u.port)
      let list = free.get(port)
      if (!list) free.set(port, (list = []))
      let s = list.pop()
      if (!s) {
        s = connect({ host: "127.0.0.1", port, noDelay: true })
        s.on("data", (d: Buffer) => {
          const t = d.latin1Slice(0, d.length)
          if (t.endsWith("\r\n\r\n")) {
            list.push(s)
            s.done(Number(t.slice(9, 12)))
          } else console.log(t)
        })
      }
      s.done = resolve
      const h = hs(i)
      let head = `POST ${u.pathname} HTTP/1.1\r\nhost: ${u.host}\r\ncontent-length: ${buf.length}\r\n`
      for (const k in h) head += `${k}: ${(h as any)[k]}\r\n`
      s.write(head + "\r\n" + body)
    })
  for (let k = 0; k < 3; k++) {
    yield* measure("object headers, buffer", (i) => {
      const u = urls[i % 50]!
      return plain(
        {
          method: "POST",
          host: u.hostname,
          port: u.port,
          path: u.pathname,
          agent,
          headers: { ...hs(i), "content-length": buf.length }
        },
        buf
      )
    })
    yield* measure("object headers, string", (i) => {
      const u = urls[i % 50]!
      return plain(
        {
          method: "POST",
          host: u.hostname,
          port: u.port,
          path: u.pathname,
          agent,
          headers: { ...hs(i), "content-length": buf.length }
        },
        body
      )
    })
    yield* measure("array headers, string", (i) => {
      const u = urls[i % 50]!
      const h = hs(i)
      const a = ["host", u.host, "content-length", String(buf.length)]
      for (const k in h) a.push(k, (h as any)[k])
      return plain({ method: "POST", host: u.hostname, port: u.port, path: u.pathname, agent, headers: a }, body)
    })
    yield* measure("raw", raw)
  }
}).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
Effect.runPromise(program as any).then(
  () => process.exit(0),
  (e) => {
    console.error(e)
    process.exit(1)
  }
)
