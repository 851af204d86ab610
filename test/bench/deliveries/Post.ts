/** The work of both opponents for a job: sign it by Standard Webhooks and POST it by undici on persistent connections. */
import { createHmac } from "node:crypto"
import { Agent } from "undici"

/** A job of an opponent. */
export interface Job {
  readonly id: string
  readonly url: string
  readonly traceparent: string
  readonly event: object
}

/** The contract's deadline in milliseconds, here of the answer's headers and of each part of its body: undici's own timers. */
const deadline = 15_000

const agent = new Agent({ pipelining: 1, headersTimeout: deadline, bodyTimeout: deadline })

/** Creates the handler of a job. All endpoints share `secret` here; the service opens each endpoint's own for each attempt. */
export const poster = (secret: string) => {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64")
  return async ({ event, id, traceparent, url }: Job): Promise<void> => {
    const body = Buffer.from(JSON.stringify(event))
    const timestamp = String(Math.floor(Date.now() / 1000))
    const mac = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body)
    const { origin, pathname: path } = new URL(url)
    const answer = await agent.request({
      origin,
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
