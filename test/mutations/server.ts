/** Mutations of `src/server`: the documents that are read before a call, and what is refused before a route. */
import { mutating } from "./Mutation.ts"

const discovery = mutating("server/Discovery.ts", "api/Discovery")
const workflows = mutating("server/Workflows.ts", "judges/Workflows")
const target = mutating("server/RequestTarget.ts", "server/RequestTarget")
const extent = mutating("server/JsonExtent.ts", "server/JsonExtent")
const refusals = mutating("server/Refusals.ts", "contract/Connections")
const lifecycle = mutating("server/Lifecycle.ts", "contract/Connections")
const loopback = mutating("server/Loopback.ts", "server/Loopback")
const mcp = mutating("server/Mcp.ts", "contract/Mcp")

export const server = [
  discovery("Buffer.from(withoutFiles(text))", "Buffer.from(text)"),
  discovery('`${pathname.replace(/\\/$/, "")}/docs`', '"/docs"'),
  discovery('headers: { link: `<${publicUrl}/.well-known/api-catalog>; rel="api-catalog"` }', "headers: {}"),
  workflows("statuses: [200, 409]", "statuses: [200]"),
  workflows('operation: "duplicate"', 'operation: "rename", name: "Renamed", expectedVersion: 1'),
  target("segment.length > longestSegment ||", ""),
  target("if (isEscaped && methods(path).length === 0) return undefined", ""),
  target('if (!target.startsWith("/")) return undefined', ""),
  target("hasTooMany(query) ? query.split", "false ? query.split"),
  extent("if (count > maxEntries && leavingOut === 0) {", "if (leavingOut < 0) {"),
  mutating("server/JsonExtent.ts", "contract/Walk.bodies")("omitsMembers ||= isList[depth] === 0", ""),
  refusals("findLast(({ req }) => req.complete)", "findLast(() => false)"),
  refusals("|| pending.some(({ headersSent }) => headersSent)", "|| pending.length > 0"),
  refusals("answeredEarly.get(socket)?.complete === false", "false"),
  refusals("?.complete === false", " !== undefined"),
  lifecycle('hosts === 0 && httpVersion !== "1.0"', "hosts === 0"),
  lifecycle('hosts === 0 && httpVersion !== "1.0" ? "is required"', 'hosts < 0 ? "is required"'),
  mutating("server/Http.ts", "server/Loopback")("isOnLoopback(address) ? isLoopbackHost : undefined", "isLoopbackHost"),
  mcp("if (!isAllowed(headers.origin, publicUrl)) {", "if (publicUrl === '') {"),
  mcp("maxDepth + outerLevels", "maxDepth"),
  mutating("server/Mcp/Tools.ts", "contract/Walk.tools")(
    "refusalOf(credential, access) === undefined",
    "credential !== access"
  ),
  loopback('plain.endsWith(".localhost")', 'plain.endsWith("localhost")'),
  mutating("platform/Redaction.ts", "platform/Redaction")("if (from < end) continue", "if (from > end) continue"),
  mutating("platform/Redaction.ts", "platform/Redaction")('text.includes("%")', 'text.includes("%5")')
]
