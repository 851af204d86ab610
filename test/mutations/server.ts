/** Mutations of `src/server`: the documents that are read before a call. */
import { mutating } from "./Mutation.ts"

const discovery = mutating("server/Discovery.ts", "api/Discovery")
const workflows = mutating("server/Workflows.ts", "api/Workflows")

export const server = [
  discovery("Buffer.from(withoutFiles(text))", "Buffer.from(text)"),
  discovery('`${pathname.replace(/\\/$/, "")}/docs`', '"/docs"'),
  discovery('headers: { link: `<${publicUrl}/.well-known/api-catalog>; rel="api-catalog"` }', "headers: {}"),
  workflows("statuses: [200, 409]", "statuses: [200]"),
  workflows('operation: "duplicate"', 'operation: "rename", name: "Renamed", expectedVersion: 1')
]
