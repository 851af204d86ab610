/** Fields that the configs of several connectors share. */
import { Schema } from "effect"
import { text } from "../../../api/schema/Fields.ts"

const isHttpUrl = (text: string) => {
  if (!URL.canParse(text)) return false
  const { password, protocol, username } = new URL(text)
  return ["http:", "https:"].includes(protocol) && username === "" && password === ""
}

/**
 * A URL that the operator has chosen, so any address is allowed. Credentials in the URL are refused, because they would not be
 * sent.
 */
export const HttpUrl = text(1, 2048).check(
  Schema.makeFilter(isHttpUrl, {
    expected: "an http or https URL without credentials",
    toJsonSchema: () => ({ format: "uri" })
  })
)

export const secret = (pattern: RegExp, expected: string) =>
  Schema.RedactedFromValue(text(1, 500).check(Schema.isPattern(pattern, { expected })))
