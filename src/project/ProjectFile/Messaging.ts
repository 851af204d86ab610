/** The messaging part of a project file: channels, and the conversations on them. */
import { Schema, SchemaTransformation } from "effect"
import { text } from "../../api/Fields.ts"
import { ClientId } from "../../api/Ids.ts"
import { id, name, optional } from "./Parts.ts"

const secret = Schema.RedactedFromValue(text(1, 500))

const HttpUrl = text(1, 2048).check(
  Schema.makeFilter((text: string) => URL.canParse(text) && ["http:", "https:"].includes(new URL(text).protocol), {
    expected: "an http or https URL",
    toJsonSchema: () => ({ format: "uri" })
  })
)

const channel = <Provider extends string, Config extends Schema.Struct.Fields>(provider: Provider, config: Config) =>
  Schema.Struct({
    id,
    providerType: Schema.Literal(provider),
    displayName: name,
    status: optional(Schema.Literals(["active", "revoked"]), "active"),
    config: optional(Schema.Struct(config))
  })

/** A channel, with the settings of the connector that its `providerType` names (contract §8). */
export const Channel = Schema.Union([
  channel("http", { url: HttpUrl, signingSecret: secret }),
  channel("telegram", { apiBaseUrl: optional(HttpUrl, "https://api.telegram.org"), token: secret }),
  channel("sandbox", {})
]).annotate({ expected: "a channel whose providerType is http, telegram or sandbox" })

export const Conversation = Schema.Struct({
  id: Schema.String.check(Schema.isUUID(undefined, { expected: "a UUID" })).pipe(
    Schema.decode(SchemaTransformation.toLowerCase())
  ),
  clientId: optional(Schema.NullOr(ClientId)),
  channelId: id,
  address: text(1, 500)
})
