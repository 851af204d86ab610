/** Operations by names that are known only at run time. */
import { assert } from "@effect/vitest"
import { HttpApi, HttpApiSchema } from "effect/http-api"
import { Api } from "../../src/api/Api.ts"
import type { DeveloperClient } from "../../src/client/PromiseClient.ts"
import { hasMember } from "../../src/client/DeveloperApi.ts"

interface Declared {
  readonly group: string
  readonly name: string
  readonly isList: boolean
}

const operations: Array<Declared> = []
HttpApi.reflect(Api, {
  onGroup: () => {},
  onEndpoint: ({ endpoint, group }) =>
    void operations.push({
      group: group.identifier,
      name: endpoint.identifier,
      // A list is recognized by its answer; the client uses its request.
      isList: [...endpoint.success].some(
        (answer) => HttpApiSchema.isWithHeaders(answer) && hasMember(answer.schema, "nextCursor")
      )
    })
})

/** Every operation that the API declares. */
export const declared: ReadonlyArray<Declared> = operations

type Anything = (request: object) => Promise<unknown>

const isMethod = (method: unknown): method is Anything => typeof method === "function"

/** Returns the client's method for an operation; fails if there is none. */
export const methodOf = (client: DeveloperClient, operation: string): Anything => {
  const group = declared.find(({ name }) => name === operation)?.group
  const methods: unknown = Object.entries(client).find(([key]) => key === group)?.[1]
  const method: unknown = Object.entries(Object(methods)).find(([key]) => key === operation)?.[1]
  return isMethod(method) ? method : assert.fail(`There is no ${operation}`)
}
