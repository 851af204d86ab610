/** Mutations of `src/api`: fields, ids, pages, the document and its viewer. */
import { mutating } from "./Mutation.ts"

const fields = mutating("api/schema/Fields.ts", "contract/Walk.fields")

export const api = [
  fields("count--", "count"),
  fields("(year % 100 !== 0 || year % 400 === 0)", "true"),
  fields("(?=.{3,254}$)", ""),
  fields("[0-9]{1,14}$", "[0-9]{1,15}$"),
  mutating("api/Endpoints.ts", "contract/Walk.fields")("(?:[1-9][0-9]?|100)", "(?:[1-9][0-9]*)"),
  mutating("api/schema/Fields.ts", "contract/Walk.fields")("ZAR ZMW ZWG", "ZAR ZMW ZWG DEM"),
  mutating("api/schema/Ids.ts", "contract/Walk.fields")("text(1, 160)", "text(1, 161)"),
  mutating("api/schema/Faults.ts", "contract/Campaigns")("JsonPointer.escapeToken(cut", "String(cut"),
  fields("(?!0000)", ""),
  mutating("api/integrations/Events.ts", "api/Document")(
    "Schema.Union([Client, erasedClient])",
    "Schema.Union([Client])"
  ),
  mutating("api/Requests.ts", "api/Document")('scheme: "bearer"', 'scheme: "Bearer"'),
  mutating("api/document/Document.ts", "api/Document")("operation.operationId = name", ""),
  mutating("api/document/Parameters.ts", "api/Document")(
    '"header/idempotency-key": {}',
    '"header/idempotency-key": { example: "order-0001" }'
  ),
  mutating("documents/Docs.ts", "api/Reference")('request.method !== "GET"', 'request.method === "PUT"'),
  mutating("documents/Samples.ts", "api/Samples")("str(uuid.uuid4())", '"once-0001"'),
  mutating("api/crm/Clients.ts", "api/Samples")(
    "request: createExample",
    'request: { ...createExample, externalId: "crm-1815" }'
  ),
  mutating("documents/Samples.ts", "api/Samples")('true: "True"', 'true: "true"'),
  mutating("documents/Docs.ts", "api/Reference")("hideClientButton: true", "hideClientButton: false"),
  mutating("documents/Docs.ts", "api/Reference")("{ anyOf: [schema] }", "schema")
]
