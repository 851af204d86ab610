import { Context } from "effect"

/** The example of an operation's request body, and of its success answer. */
export class Examples extends Context.Service<Examples, { readonly request?: unknown; readonly answer: unknown }>()(
  "developer-api/api/Examples"
) {}
