/** An operation's examples in the OpenAPI document. `requests` has several bodies, by name. */
import { Context, Record } from "effect"

export class Examples extends Context.Service<
  Examples,
  { readonly request?: unknown; readonly requests?: Readonly<Record<string, unknown>>; readonly answer: unknown }
>()("developer-api/api/schema/Examples") {}

/** Adds named examples to each media type of a body. Viewers show `examples`, but not `example`. */
export const exemplify = (content: object | undefined, examples: Readonly<Record<string, unknown>>): void => {
  for (const media of Object.values(content ?? {})) {
    Object.assign(media, { examples: Record.map(examples, (value) => ({ value })) })
  }
}
