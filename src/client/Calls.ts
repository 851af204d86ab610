/** Operations of endpoints that are known only at run time, for the Effect client and the Promise client. */
import type { Written } from "./RequestForm.ts"

/** The members of an answer that pagination reads. */
export interface Answer {
  readonly body?: { readonly items?: ReadonlyArray<unknown>; readonly nextCursor?: string | null }
}

/** Returns the records of a page. */
export const itemsOf = ({ body }: Answer): ReadonlyArray<unknown> => body?.items ?? []

/** Returns the request of the next page; undefined after the last page. */
export const nextPage = (request: Written, { body }: Answer): Written | undefined =>
  body?.nextCursor == null ? undefined : { ...request, query: { ...request.query, cursor: body.nextCursor } }
