/** The text of an answer's body that the attempt log keeps (contract §10). */
import { redactSecrets } from "../../../secrets/Redaction.ts"

const kept = 1_024
/**
 * Number of bytes that are searched for secrets. It is more than `kept`, the number that the log keeps: a secret that the cut
 * divides is recognized only as a whole.
 */
const searched = 2 * kept

/**
 * Returns the first 1,024 bytes of a body as text without secrets, those in `secrets` included, or null for an empty body. U+0000, which PostgreSQL
 * cannot store in text, and bytes that are not UTF-8 become U+FFFD. A character that the cut splits is left out.
 */
export const textOf = (body: Uint8Array, secrets: ReadonlyArray<string> = []): string | null => {
  if (body.byteLength === 0) return null
  const given = patternOf(secrets)
  const redact = (text: string) => redactSecrets(given === undefined ? text : text.replace(given, "[redacted]"))
  const text = redact(decode(body, kept))
  return body.byteLength <= kept ? text : commonStart(text, redact(decode(body, searched)))
}

/** Matches the texts, also as they are in a JSON string. A longer text comes before a text that begins it. */
const patternOf = (secrets: ReadonlyArray<string>) => {
  const texts = secrets.flatMap((secret) => [secret.trim(), JSON.stringify(secret.trim()).slice(1, -1)]).filter(Boolean)
  return texts.length === 0
    ? undefined
    : new RegExp(
        texts
          .toSorted((one, other) => other.length - one.length)
          .map((text) => RegExp.escape(text))
          .join("|"),
        "g"
      )
}

const decode = (body: Uint8Array, limit: number) =>
  new TextDecoder("utf-8", { ignoreBOM: true })
    .decode(body.subarray(0, limit), { stream: body.byteLength > limit })
    .replaceAll("\u0000", "\uFFFD")

const commonStart = (one: string, other: string): string => {
  if (other.startsWith(one)) return one
  let end = 0
  while (one[end] === other[end]) end++
  return one.slice(0, end)
}
