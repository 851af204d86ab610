/** Clients: get, list and create. */
import type { FastifyInstance } from "fastify"
import type { Pool } from "pg"
import type { makeCursors, Place } from "./Cursor.ts"
import { clientFields, ofCreate, valuesOf } from "./Fields.ts"
import { checkTarget, type Guard, projectOf } from "./Guard.ts"
import { commandOf, mutate, newId, receipt } from "./Mutations.ts"
import { Problem } from "./Problem.ts"
import * as Schemas from "./Schemas.ts"
import { createClient, findClient, listClients } from "./Sql.ts"

interface Client {
  readonly id: string
  readonly version: number
  readonly createdAt: string
}

const path = "/api/v1/developer/crm/clients"

export const clients = (
  app: FastifyInstance,
  pool: Pool,
  guard: Guard,
  cursors: ReturnType<typeof makeCursors>
): void => {
  app.get<{ Params: { clientId: string } }>(
    `${path}/:clientId`,
    {
      onRequest: guard("crm.clients.read", "read"),
      preValidation: checkTarget,
      schema: { params: Schemas.params("clientId"), querystring: Schemas.noQuery, response: { 200: Schemas.client } }
    },
    async (request, reply) => {
      const values = [projectOf(request), request.params.clientId]
      const { rows } = await pool.query<Client>({ name: "findClient", text: findClient, values })
      if (rows[0] === undefined) throw new Problem(404, "client_not_found", "The project has no such client.", "")
      reply.header("etag", `"${rows[0].version}"`)
      return rows[0]
    }
  )

  app.get<{ Querystring: { status: "active" | "archived" | "all"; limit: string; cursor?: string } }>(
    path,
    {
      onRequest: guard("crm.clients.read", "read"),
      preValidation: checkTarget,
      schema: { querystring: Schemas.listQuery, response: { 200: Schemas.page } }
    },
    async (request, reply) => {
      const { cursor, status } = request.query
      const limit = Number(request.query.limit)
      const projectId = projectOf(request)
      const list = [projectId, "listClients", { status }]
      const after = cursor === undefined ? undefined : cursors.decode(list, cursor)
      const { rows } = await pool.query<Client>(listQuery(projectId, status, after, limit + 1))
      const items = rows.length > limit ? rows.slice(0, limit) : rows
      const last = rows.length > limit ? items.at(-1) : undefined
      const nextCursor =
        last === undefined ? null : cursors.encode(list, { createdAt: new Date(last.createdAt), id: last.id })
      if (nextCursor !== null) {
        const next = new URL(request.url, "http://localhost")
        next.searchParams.set("cursor", nextCursor)
        reply.header("link", `<${next.origin}${next.pathname}${next.search}>; rel="next"`)
      }
      return { items, nextCursor }
    }
  )

  app.post<{ Body: Readonly<Record<string, unknown>> }>(
    path,
    {
      onRequest: guard("crm.clients.write", "write"),
      preValidation: checkTarget,
      schema: {
        headers: Schemas.recordMutationHeaders,
        querystring: Schemas.noQuery,
        body: Schemas.clientCreate,
        response: { 201: Schemas.receipt }
      }
    },
    async (request, reply) => {
      const command = commandOf(request, "createClient")
      const values = [newId("cli", command.at), ...valuesOf(ofCreate(clientFields), request.body)]
      return receipt(reply, 201, await mutate(pool, command, { ...create, values }))
    }
  )
}

const contact_capacity_exhausted = () =>
  new Problem(
    409,
    "contact_capacity_exhausted",
    "The project has as many active clients as its capacity allows.",
    "Archive a client, or ask the operator for a larger contact capacity."
  )

const create = { name: "createClient", text: createClient, problems: { contact_capacity_exhausted } }

const listQuery = (projectId: string, status: string, after: Place | undefined, count: number) => {
  const filter = status === "all" ? [] : [status]
  const position = after === undefined ? [] : [after.createdAt, after.id]
  return {
    name: `listClients ${filter.length} ${position.length}`,
    text: listTexts[after === undefined ? "first" : "next"][filter.length === 0 ? 0 : 1],
    values: [projectId, ...filter, ...position, count]
  }
}

/** Of clients of any status, and of one. */
const listTexts = {
  first: [listClients(false, false), listClients(true, false)],
  next: [listClients(false, true), listClients(true, true)]
} as const
