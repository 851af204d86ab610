/** The connections that requests go out on. */
import { Effect } from "effect"
import { Agent } from "node:http"
import { Agent as TlsAgent } from "node:https"

export interface Agents {
  readonly http: Agent
  readonly https: TlsAgent
}

/**
 * Idle connections are few for an origin, few in all, and soon closed. There is no `maxSockets`: to wait for a connection
 * that a slow answer holds would cost one request's time for another's. As many are in use as requests are under way,
 * and how many that are is for the caller to say.
 */
const options = { keepAlive: true, timeout: 15_000, maxFreeSockets: 8 }
const idleInAll = 256

/** Agents that close with the scope, whatever is on their connections. */
export const keptAgents = Effect.acquireRelease(
  Effect.sync((): Agents => ({ http: bounded(new Agent(options)), https: bounded(new TlsAgent(options)) })),
  ({ http, https }) =>
    Effect.sync(() => {
      http.destroy()
      https.destroy()
    })
)

/** Agents for one request, on a connection that nothing was sent on before, and nothing will be after. */
export const freshAgents = (): Agents => ({ http: new Agent(), https: new TlsAgent() })

/** Counts idle connections as they come and go: to look at all of them after each answer would cost as much as the answer. */
const bounded = <A extends Agent>(agent: A): A => {
  const keep = agent.keepSocketAlive.bind(agent)
  const reuse = agent.reuseSocket.bind(agent)
  const idle = new Set<object>()
  const known = new WeakSet<object>()
  agent.keepSocketAlive = (socket) => {
    if (idle.size >= idleInAll) return false
    idle.add(socket)
    if (!known.has(socket)) {
      known.add(socket)
      socket.once("close", () => idle.delete(socket))
    }
    return keep(socket)
  }
  agent.reuseSocket = (socket, request) => {
    idle.delete(socket)
    reuse(socket, request)
  }
  return agent
}
