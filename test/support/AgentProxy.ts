/** A proxy between an agent and replicas of the service: it adds a credential, and takes replicas in turns. */
import { Effect } from "effect"
import { createServer, request as open } from "node:http"

interface ProxyOptions {
  /** Each request goes to the next of them. */
  readonly replicas: ReadonlyArray<string>
  /** Replaces the credential of the requests. */
  readonly token?: string
}

/** Starts the proxy on a free port of the loopback; it ends with the scope. Returns its address and the requests of each replica. */
export const startAgentProxy = ({ replicas, token }: ProxyOptions) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const sent = replicas.map(() => 0)
      let next = 0
      const server = createServer((incoming, answer) => {
        const replica = next++ % replicas.length
        sent[replica] = (sent[replica] ?? 0) + 1
        const { headers, method, url = "/" } = incoming
        const outgoing = open(new URL(url, replicas[replica]), {
          method,
          headers: { ...headers, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) }
        })
        outgoing.on("error", () => answer.destroy())
        outgoing.on("response", (response) => {
          answer.writeHead(response.statusCode ?? 500, response.headers)
          response.pipe(answer)
        })
        incoming.pipe(outgoing)
      })
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      const address = server.address()
      if (address === null || typeof address === "string") throw new Error("The proxy has no port")
      return { server, sent, url: `http://127.0.0.1:${address.port}` }
    }),
    ({ server }) =>
      Effect.promise(
        () =>
          new Promise((resolve) => {
            server.close(resolve)
            server.closeAllConnections()
          })
      )
  )
