/** The config of a channel, by type of provider. A project file sets it; it is stored sealed. */
import { Schema } from "effect"
import { text } from "../../api/Fields.ts"

const isHttpUrl = (text: string) => {
  if (!URL.canParse(text)) return false
  const { password, protocol, username } = new URL(text)
  return ["http:", "https:"].includes(protocol) && username === "" && password === ""
}

/** A URL of the operator's choice, with any address. Credentials in it would not be sent. */
const HttpUrl = text(1, 2048).check(
  Schema.makeFilter(isHttpUrl, {
    expected: "an http or https URL without credentials",
    toJsonSchema: () => ({ format: "uri" })
  })
)

const secret = (pattern: RegExp, expected: string) =>
  Schema.RedactedFromValue(text(1, 500).check(Schema.isPattern(pattern, { expected })))

/** A secret in either base64 alphabet, as the libraries of Standard Webhooks accept it. */
const signingSecret = secret(/^(?:whsec_)?[A-Za-z0-9+/_-]+={0,2}$/u, "a signing secret: whsec_ and base64")

/** A bot token. It becomes part of a path. */
const telegramToken = secret(/^[A-Za-z0-9:._~-]+$/u, "a bot token")

export const telegramApi = "https://api.telegram.org"

/** The schema of each provider's `config`; optional members declare their default. */
export const configs = {
  http: Schema.Struct({ url: HttpUrl, signingSecret }),
  telegram: Schema.Struct({
    apiBaseUrl: Schema.optionalKey(HttpUrl).annotateKey({ default: telegramApi }),
    token: telegramToken
  }),
  // A Struct without members would accept any value but null.
  sandbox: Schema.Record(Schema.String, Schema.Never.annotate({ message: "is not known here" }))
}

/** The decoded config of each provider. */
export type Configs = { readonly [Type in keyof typeof configs]: (typeof configs)[Type]["Type"] }

/** A type of provider with its config. */
export const ChannelConfig = Schema.Union([
  Schema.Struct({ providerType: Schema.Literal("http"), config: configs.http }),
  Schema.Struct({ providerType: Schema.Literal("telegram"), config: configs.telegram }),
  Schema.Struct({ providerType: Schema.Literal("sandbox"), config: configs.sandbox })
])
export type ChannelConfig = typeof ChannelConfig.Type
