/** The tools of agents: one for each operation, derived from the HttpApi and its document. */
import { Context, Effect } from "effect"
import * as HttpApi from "effect/http-api/HttpApi"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as OpenApi from "effect/http-api/OpenApi"
import { Access, Changing, Destructive, type Policy } from "../../api/Access.ts"
import { Api } from "../../api/Api.ts"
import { completeDocument } from "../../api/Document.ts"
import type { Credential } from "../auth/Credentials.ts"
import { refusalOf } from "../auth/Bearer.ts"
import { argumentsOf } from "./ToolArguments.ts"

/** A tool as `tools/list` shows it, with the access that its operation requires. */
interface Tool {
  readonly access: Access["Service"]
  readonly shown: object
}

/** Maximum number of lists that are kept. There is one for each set of scopes and modules that tokens have. */
const maxLists = 50

/**
 * Makes a function that returns the tools of a credential, as JSON. Its first call generates the OpenAPI document, from which the
 * tools derive.
 */
export const makeTools: Effect.Effect<(credential: Credential) => Effect.Effect<string>> = Effect.map(
  Effect.cached(Effect.sync(() => all())),
  (tools) => {
    const lists = new Map<string, string>()
    const listOf = (tools: ReadonlyArray<Tool>, credential: Credential): string => {
      const permitted = tools.filter(({ access }) => refusalOf(credential, access) === undefined)
      const key = permitted.map(({ access }) => access.scope).join()
      const known = lists.get(key)
      if (known !== undefined) return known
      const list = JSON.stringify(permitted.map(({ shown }) => shown))
      if (lists.size < maxLists) lists.set(key, list)
      return list
    }
    return (credential) => Effect.map(tools, (tools) => listOf(tools, credential))
  }
)

const all = (): ReadonlyArray<Tool> => {
  const document = OpenApi.fromApi(completeDocument(Api))
  const tools: Array<Tool> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      const path = document.paths[endpoint.path.replace(/:([A-Za-z]+)/g, "{$1}")]
      const operation = Object.entries(path ?? {}).find(([method]) => method === endpoint.method.toLowerCase())?.[1]
      if (operation === undefined || !("responses" in operation)) {
        throw new Error(`The document lacks the operation ${endpoint.identifier}`)
      }
      tools.push(toolOf(endpoint, operation, document))
    }
  })
  return tools
}

const toolOf = (
  { annotations, identifier: name, method }: HttpApiEndpoint.Top,
  operation: OpenApi.OpenAPISpecOperation,
  document: OpenApi.OpenAPISpec
): Tool => {
  const access = Context.getUnsafe(annotations, Access)
  const isDestructive = Context.get(annotations, Destructive)
  const isChanging = Context.get(annotations, Changing)
  const title = operation.summary ?? name
  return {
    access,
    shown: {
      name,
      description: descriptionOf(operation.description ?? "", access, isDestructive),
      inputSchema: argumentsOf(operation, document),
      annotations: {
        title,
        readOnlyHint: access.policy === "read",
        destructiveHint: isDestructive || isChanging || method === "PATCH" || method === "PUT" || method === "DELETE",
        idempotentHint: true,
        openWorldHint: access.policy === "messages"
      }
    }
  }
}

/** The last sentence of a tool's description, by its rate limit policy. */
const cautions: Readonly<Partial<Record<Policy, string>>> = {
  messages: " After a timeout or 503 repeat it with the same key: a new key sends it again."
}

const destructive = "Ask the user first: no call restores what it removes or ends."

/** Maximum length of a description in characters, scope and cautions included. */
const maxLength = 240

/** Describes a tool: as many sentences of the operation's description as fit, then the scope and the cautions. */
const descriptionOf = (reference: string, { policy, scope }: Access["Service"], isDestructive: boolean): string => {
  const end = `${isDestructive ? `${destructive} ` : ""}Scope: ${scope === null ? "none" : `\`${scope}\``}.${cautions[policy] ?? ""}`
  const [sentences = ""] = reference.split("\n\nScope:")
  let text = ""
  for (const sentence of sentences.match(/[^.]+(?:\.(?! )[^.]*)*(?:\.|$)/g) ?? []) {
    if (text.length + sentence.trim().length + end.length + 2 > maxLength) break
    text += `${sentence.trim()} `
  }
  return `${text}${end}`
}
