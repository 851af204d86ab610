/** Clients: get, list, create and patch. */
import type { FastifyInstance } from "fastify"
import type { Pool } from "pg"
import { makeCursors } from "./Cursor.ts"
import { checkTarget, makeGuard, projectOf } from "./Guard.ts"
import { mutate, newId } from "./Mutations.ts"
import { Problem } from "./Problem.ts"
import * as Schemas from "./Schemas.ts"
import { createClient, findClient, listClients, patchClient, valuesOf } from "./Sql.ts"

interface Client {
  readonly id: string
  readonly version: number
  readonly createdAt: string
}

const path = "/api/v1/developer/crm/clients"

export const clients = (app: FastifyInstance, pool: Pool, secret: string): void => {
  const guard = makeGuard(pool)
  const cursors = makeCursors(secret)
  const read = { onRequest: guard("crm.clients.read", "read"), preValidation: checkTarget }
  const write = { onRequest: guard("crm.clients.write", "write"), preValidation: checkTarget }
  const mutation = { headers: Schemas.mutationHeaders, querystring: Schemas.noQuery }

  app.get<{ Params: { clientId: string } }>(
    `${path}/:clientId`,
    {
      ...read,
      schema: { params: Schemas.params, querystring: Schemas.noQuery, response: { 200: Schemas.client } }
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
    { ...read, schema: { querystring: Schemas.listQuery, response: { 200: Schemas.page } } },
    async (request, reply) => {
      const { cursor } = request.query
      const limit = Number(request.query.limit)
      const projectId = projectOf(request)
      const list = [projectId, "listClients", { status: "all" }]
      const after = cursor === undefined ? undefined : cursors.decode(list, cursor)
      const { rows } = await pool.query<Client>(
        after === undefined
          ? { name: "listClients", text: firstPage, values: [projectId, limit + 1] }
          : { name: "listClientsAfter", text: nextPage, values: [projectId, limit + 1, after.createdAt, after.id] }
      )
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
    { ...write, schema: { ...mutation, body: Schemas.clientCreate, response: { 201: Schemas.receipt } } },
    (request, reply) => {
      const change = (at: Date) => [newId("cli", at), ...valuesOf(request.body)]
      return mutate(pool, create, request, reply.code(201), change)
    }
  )

  app.patch<{ Params: { clientId: string }; Body: object }>(
    `${path}/:clientId`,
    {
      ...write,
      schema: { ...mutation, params: Schemas.params, body: Schemas.clientPatch, response: { 200: Schemas.receipt } }
    },
    (request, reply) =>
      mutate(pool, patch, request, reply, () => [request.params.clientId, JSON.stringify(request.body)])
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

const [firstPage, nextPage] = [listClients(false), listClients(true)]
