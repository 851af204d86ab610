/** The endpoint that shows what a token is and may do (contract §3). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, defaultRateLimits, Examples, Module, policies, Scope } from "./Access.ts"
import { text, Timestamp } from "./schema/Fields.ts"
import { KeyId, MemberId, ProjectId } from "./schema/Ids.ts"

const RateLimit = Schema.Struct({
  limit: Schema.Int.annotate({ description: "The number of requests that the bucket holds." }),
  windowSeconds: Schema.Int.annotate({ description: "The seconds in which an empty bucket is full again." })
})

export const Credential = Schema.Struct({
  projectId: ProjectId,
  projectName: text(1, 160).annotate({ description: "The name of the project: 1 to 160 characters." }),
  timeZone: Schema.String.annotate({ description: "The IANA time zone of the project, such as `Europe/Berlin`." }),
  modules: Schema.Array(Module).annotate({ description: "The modules that the project has enabled." }),
  keyId: KeyId,
  name: Schema.String.annotate({ description: "The name that the operator gave the key." }),
  scopes: Schema.Array(Scope).annotate({
    description: "The scopes of the key. An operation names the one that it needs."
  }),
  memberId: Schema.NullOr(MemberId).annotate({
    description: "The id of the member to whom the key is bound; null if it is bound to none."
  }),
  expiresAt: Timestamp.annotate({ description: "When the token expires: RFC 3339, in UTC, with milliseconds." }),
  rateLimits: Schema.Struct({
    read: RateLimit.annotate({ description: "The bucket of reads." }),
    write: RateLimit.annotate({ description: "The bucket of changes." }),
    messages: RateLimit.annotate({ description: "The bucket of messages to people." })
  }).annotate({
    description: `The rate limits of the project, by policy: ${policies.map((policy) => `\`${policy}\``).join(", ")}.`
  }),
  contactCapacity: Schema.NullOr(Schema.Int).annotate({
    description: "The maximum number of active clients; null if there is none."
  }),
  activeClients: Schema.Int.annotate({
    description: "The number of active clients. Without a capacity, one above 10,000 may be 10 seconds old."
  })
}).annotate({ identifier: "DeveloperCredential" })
export type Credential = typeof Credential.Type

export class CredentialGroup extends HttpApiGroup.make("credential")
  .add(
    HttpApiEndpoint.get("getCredential", "/v1/developer/credential", { success: Credential })
      .annotate(Access, { scope: null, module: null, policy: "read" })
      .annotate(Examples, {
        answer: {
          projectId: "demo",
          projectName: "Demo",
          timeZone: "Europe/Berlin",
          modules: ["crm", "messaging", "campaigns", "integrations", "tickets"],
          keyId: "4fT9bQ2xLm7Z",
          name: "shop",
          scopes: ["crm.clients.read", "crm.clients.write"],
          memberId: null,
          expiresAt: "2027-02-18T10:00:00.000Z",
          rateLimits: defaultRateLimits,
          contactCapacity: 1000,
          activeClients: 812
        }
      })
      .annotate(OpenApi.Summary, "Get the credential")
      .annotate(
        OpenApi.Description,
        "Reads what the token is and may do: its project, its scopes, its end and its rate limits. Any valid token may read it."
      )
  )
  .annotate(OpenApi.Title, "Credential")
  .annotate(OpenApi.Description, "The token of the request, with the settings of its project.") {}
