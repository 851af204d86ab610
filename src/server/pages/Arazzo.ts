/** The workflows of the service as a document of Arazzo 1.0. */
import { Context, Predicate } from "effect"
import * as HttpApi from "effect/http-api/HttpApi"
import * as OpenApi from "effect/http-api/OpenApi"
import { Api } from "../../api/Api.ts"
import { Examples } from "../../api/schema/Examples.ts"
import { type Step, type Workflow, workflows } from "./Workflows.ts"

/** What a step needs of its operation: the status of a success, and the example of a body. */
interface Operation {
  readonly status: number
  readonly example: object | undefined
}

const source = "developerApi"

export const arazzo = (publicUrl: string) => {
  const operations = operationsByName()
  return {
    arazzo: "1.0.1",
    info: {
      title: `${Context.getUnsafe(Api.annotations, OpenApi.Title)}: first workflows`,
      summary: "Workflows over the records of the demo project. Each passes again and again.",
      version: Context.getUnsafe(Api.annotations, OpenApi.Version)
    },
    sourceDescriptions: [{ name: source, url: `${publicUrl}/openapi.json`, type: "openapi" }],
    workflows: workflows.map((workflow) => workflowOf(workflow, operations, publicUrl))
  }
}

const operationsByName = () => {
  const operations = new Map<string, Operation>()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint: { annotations, identifier }, successes }) => {
      const [status = 200] = successes.keys()
      const request = Context.getOrUndefined(annotations, Examples)?.request
      const example = Predicate.isObject(request) ? request : undefined
      operations.set(identifier, { status, example })
    }
  })
  return operations
}

const workflowOf = (workflow: Workflow, operations: ReadonlyMap<string, Operation>, publicUrl: string) => ({
  ...workflow,
  inputs: {
    type: "object",
    required: ["token"],
    properties: {
      server: {
        type: "string",
        description:
          "The base URL of the service. The steps are sent to it as the OpenAPI document names it in `servers`.",
        default: publicUrl
      },
      token: { type: "string", format: "password", description: "A token of the demo project, with all scopes." }
    }
  },
  parameters: [{ name: "Authorization", in: "header", value: "Bearer {$inputs.token}" }],
  steps: workflow.steps.map((step) => {
    const operation = operations.get(step.operation)
    if (operation === undefined) throw new Error(`The Api has no operation ${step.operation}`)
    return stepOf(step, operation)
  })
})

const stepOf = (step: Step, { example, status }: Operation) => {
  const { body = example && { ...example, ...step.change }, conditions = [], statuses = [status] } = step
  return {
    stepId: step.stepId ?? step.operation,
    description: step.description,
    operationId: step.operation,
    parameters: [
      ...parametersOf("path", step.path),
      ...parametersOf("query", step.query),
      ...parametersOf("header", step.key === undefined ? {} : { "idempotency-key": step.key })
    ],
    ...(body === undefined ? {} : { requestBody: { contentType: "application/json", payload: body } }),
    successCriteria: [statuses.map((status) => `$statusCode == ${status}`).join(" || "), ...conditions].map(
      (condition) => ({ condition })
    ),
    ...(step.outputs === undefined ? {} : { outputs: step.outputs })
  }
}

const parametersOf = (place: "path" | "query" | "header", values: Step["path"] = {}) =>
  Object.entries(values).map(([name, value]) => ({ name, in: place, value }))
