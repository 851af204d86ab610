/** The work of both opponents for a job: sign it by Standard Webhooks and POST it by undici on persistent connections. */
import { createHmac } from "node:crypto"
import { Pool } from "undici"
import type { Job } from "./Protocol.ts"

/** The contract's deadline in milliseconds, here of the answer's headers and of each part of its body: undici's own timers. */
const deadline = 15_000

/** Creates the handler of a job. All endpoints share `secret` here; the service opens each endpoint's own for each attempt. */
export const poster = (secret: string) => {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64")
  /** The pool and the path of each URL. */
  const targets = new Map<string, { readonly pool: Pool; readonly path: string }>()
  const targetOf = (url: string) => {
    const known = targets.get(url)
    if (known !== undefined) return known
    const { origin, pathname } = new URL(url)
    const target = {
      pool: new Pool(origin, { pipelining: 1, headersTimeout: deadline, bodyTimeout: deadline }),
      path: pathname
    }
    targets.set(url, target)
    return target
  }
  return async ({ event, id, traceparent, url }: Job): Promise<void> => {
    const body = Buffer.from(JSON.stringify(event))
    const timestamp = String(Math.floor(Date.now() / 1000))
    const mac = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body)
    const { path, pool } = targetOf(url)
    const answer = await pool.request({
      path,
      method: "POST",
      headers: {
        "content-type": "application/json",
        "user-agent": "bench",
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": `v1,${mac.digest("base64")}`,
        traceparent
      },
      body
    })
    await answer.body.dump()
    if (answer.statusCode < 200 || answer.statusCode >= 300) throw new Error(`status ${answer.statusCode}`)
  }
}
