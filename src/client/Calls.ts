/** Operations as both faces walk over them: seen from an endpoint that is known at run time only. */
import type { Written } from "./RequestForm.ts"

/** What a walk through pages looks for in an answer; other operations answer something else. */
export interface Answer {
  readonly body?: { readonly items?: ReadonlyArray<unknown>; readonly nextCursor?: string | null }
}

/** The records of a page of a list. */
export const itemsOf = ({ body }: Answer): ReadonlyArray<unknown> => body?.items ?? []

/** The request for the page after; undefined after the last. */
export const nextPage = (request: Written, { body }: Answer): Written | undefined =>
  body?.nextCursor == null ? undefined : { ...request, query: { ...request.query, cursor: body.nextCursor } }
