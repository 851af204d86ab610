/** The work of both opponents for a job: sign it by Standard Webhooks and POST it on persistent connections. */
import { createHmac } from "node:crypto"
import { Agent, request } from "node:http"
import type { Job } from "./Protocol.ts"

/** The contract's deadline in milliseconds. */
const deadline = 15_000

const agent = new Agent({ keepAlive: true })

/** Creates the handler of a job. All endpoints share `secret` here; the service opens each endpoint's own for each attempt. */
export const poster = (secret: string) => {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64")
  return ({ event, id, traceparent, url }: Job): Promise<void> =>
    new Promise((resolve, reject) => {
      const body = Buffer.from(JSON.stringify(event))
      const timestamp = String(Math.floor(Date.now() / 1000))
      const mac = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body)
      const headers = {
        "content-type": "application/json",
        "content-length": body.byteLength,
        "user-agent": "bench",
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": `v1,${mac.digest("base64")}`,
        traceparent
      }
      const sent = request(url, { method: "POST", agent, headers }, (response) => {
        const { statusCode = 0 } = response
        response
          .resume()
          .on("error", reject)
          .on("end", () => {
            clearTimeout(timer)
            if (statusCode >= 200 && statusCode < 300) resolve()
            else reject(new Error(`status ${statusCode}`))
          })
      })
      const timer = setTimeout(() => sent.destroy(new Error("timeout")), deadline)
      sent
        .on("error", (error) => {
          clearTimeout(timer)
          reject(error)
        })
        .end(body)
    })
}
