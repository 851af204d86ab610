/** A network that fails between a service and its server. */
import * as Net from "node:net"
import { defer } from "../support/Finalizers.ts"
import { freePort } from "../support/Process.ts"

export interface TcpProxy {
  readonly port: number
  /** Connections that are open now carry nothing any more, and nobody is told. New ones work. */
  readonly blackHole: () => void
  /** New connections are accepted, and carry nothing, until `heal`. Those that are open are closed. */
  readonly hang: () => void
  readonly heal: () => void
  /** Closes the connections that are open, and passes new ones on to another port. */
  readonly turnTo: (target: number) => void
}

interface Pair {
  readonly client: Net.Socket
  readonly server: Net.Socket
}

/** Listens on a port of its own and passes everything on to `target`. */
export const makeProxy = async (target: number): Promise<TcpProxy> => {
  const pairs = new Set<Pair>()
  const silent = new Set<Net.Socket>()
  let hanging = false
  let current = target

  const close = ({ client, server }: Pair) => {
    client.destroy()
    server.destroy()
  }

  const listener = Net.createServer((client) => {
    client.on("error", () => client.destroy())
    if (hanging) {
      silent.add(client)
      return
    }
    const server = Net.connect({ host: "127.0.0.1", port: current })
    const pair = { client, server }
    pairs.add(pair)
    server.on("error", () => server.destroy())
    for (const socket of [client, server]) {
      socket.on("close", () => {
        pairs.delete(pair)
        if (!silent.has(client)) close(pair)
      })
    }
    client.on("data", (bytes) => {
      if (!silent.has(client)) server.write(bytes)
    })
    server.on("data", (bytes) => {
      if (!silent.has(client)) client.write(bytes)
    })
  })
  const port = await freePort()
  await new Promise<void>((resolve) => listener.listen(port, "127.0.0.1", resolve))
  defer(() => {
    for (const pair of pairs) close(pair)
    for (const client of silent) client.destroy()
    listener.close()
  })

  return {
    port,
    blackHole: () => {
      for (const { client } of pairs) silent.add(client)
    },
    hang: () => {
      hanging = true
      for (const pair of pairs) close(pair)
    },
    heal: () => {
      hanging = false
      for (const client of silent) client.destroy()
      silent.clear()
    },
    turnTo: (next) => {
      current = next
      for (const pair of pairs) close(pair)
    }
  }
}
