/** Clients: get, list, create and patch. */
import type { FastifyInstance } from "fastify"
import type { Pool } from "pg"
import type { makeCursors, Place } from "./Cursor.ts"
import { clientFields, ofCreate, valuesOf } from "./Fields.ts"
import { checkTarget, type Guard, projectOf } from "./Guard.ts"
import { commandOf, mutate, newId, receipt } from "./Mutations.ts"
import { Problem } from "./Problem.ts"
import * as Schemas from "./Schemas.ts"
import { createClient, findClient, listClients, patchClient } from "./Sql.ts"

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
      if (rows[0] === undefined) throw client_not_found()
      reply.header("etag", `"${rows[0].version}"`)
      return rows[0]
    }
  )

  app.get<{ Querystring: { limit: string; cursor?: string } }>(
    path,
    {
      onRequest: guard("crm.clients.read", "read"),
      preValidation: checkTarget,
      schema: { querystring: Schemas.listQuery, response: { 200: Schemas.page } }
    },
    async (request, reply) => {
      const { cursor } = request.query
      const limit = Number(request.query.limit)
      const projectId = projectOf(request)
      const list = [projectId, "listClients", { status: "all" }]
      const after = cursor === undefined ? undefined : cursors.decode(list, cursor)
      const { rows } = await pool.query<Client>(listQuery(projectId, after, limit + 1))
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

  app.patch<{ Params: { clientId: string }; Body: object }>(
    `${path}/:clientId`,
    {
      onRequest: guard("crm.clients.write", "write"),
      preValidation: checkTarget,
      schema: {
        params: Schemas.params("clientId"),
        headers: Schemas.recordMutationHeaders,
        querystring: Schemas.noQuery,
        body: { ...Schemas.clientCreate, required: [], minProperties: 1 },
        response: { 200: Schemas.receipt }
      }
    },
    async (request, reply) => {
      const values = [request.params.clientId, JSON.stringify(request.body)]
      return receipt(reply, 200, await mutate(pool, commandOf(request, "patchClient"), { ...patch, values }))
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

const client_not_found = () => new Problem(404, "client_not_found", "The project has no such client.", "")
const client_archived = () => new Problem(409, "client_archived", "The client is archived.", "Activate it first.")

const patch = { name: "patchClient", text: patchClient, problems: { client_not_found, client_archived } }

const listQuery = (projectId: string, after: Place | undefined, count: number) => ({
  name: after === undefined ? "listClients" : "listClientsAfter",
  text: after === undefined ? firstPage : nextPage,
  values: after === undefined ? [projectId, count] : [projectId, count, after.createdAt, after.id]
})

const [firstPage, nextPage] = [listClients(false), listClients(true)]
