/** Examples in the OpenAPI document. */
import { Context, Record } from "effect"

/** The example of an operation's request body, or several by their names, and of its success answer. */
export class Examples extends Context.Service<
  Examples,
  { readonly request?: unknown; readonly requests?: Readonly<Record<string, unknown>>; readonly answer: unknown }
>()("developer-api/api/schema/Examples") {}

/** Adds named examples to each media type of a body. Viewers show the values of `examples` alone. */
export const exemplify = (content: object | undefined, examples: Readonly<Record<string, unknown>>): void => {
  for (const media of Object.values(content ?? {})) {
    Object.assign(media, { examples: Record.map(examples, (value) => ({ value })) })
  }
}
