/** Notes on deals: patch. */
import type { FastifyInstance } from "fastify"
import type { Pool } from "pg"
import { checkTarget, type Guard } from "./Guard.ts"
import { commandOf, mutate, receipt, type Refusal } from "./Mutations.ts"
import { Problem } from "./Problem.ts"
import * as Schemas from "./Schemas.ts"
import { patchNote } from "./Sql.ts"

interface Patch {
  readonly Params: { readonly dealId: string; readonly noteId: string }
  readonly Body: { readonly body: string; readonly expectedVersion: number }
}

export const notes = (app: FastifyInstance, pool: Pool, guard: Guard): void => {
  app.patch<Patch>(
    "/api/v1/developer/crm/deals/:dealId/notes/:noteId",
    {
      onRequest: guard("crm.deals.write", "write"),
      preValidation: checkTarget,
      schema: {
        params: Schemas.params("dealId", "noteId"),
        headers: Schemas.mutationHeaders,
        querystring: Schemas.noQuery,
        body: Schemas.notePatch,
        response: { 200: Schemas.receipt }
      }
    },
    async (request, reply) => {
      const { body, expectedVersion } = request.body
      const { dealId, noteId } = request.params
      const values = [noteId, dealId, body, expectedVersion]
      return receipt(reply, 200, await mutate(pool, commandOf(request, "patchNote"), { ...patch, values }))
    }
  )
}

const patch = {
  name: "patchNote",
  text: patchNote,
  problems: {
    note_not_found: () =>
      new Problem(
        404,
        "note_not_found",
        "The deal has no such note.",
        "The deal in the path has no note with the id in the path."
      ),
    version_conflict: ({ version }: Refusal) =>
      new Problem(
        409,
        "version_conflict",
        "The record is no longer at the expected version.",
        `The note is at version ${version}. Read it again before you change it.`,
        { extensions: { currentVersion: version } }
      )
  }
}
