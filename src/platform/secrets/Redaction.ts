/** Redacts tokens, signing secrets and codes of links in text that is logged, traced or answered. */

/** `~` stands for characters of a secret in the locations of faults (RFC 6901). */
const secret = /((?:dk|whsec)_)[A-Za-z0-9+/=_%~-]{6,}/gi

/** The code in a link to the console. */
const code = /\b(code=)[A-Za-z0-9_-]{43}/g

const redactPlain = (text: string): string => text.replace(secret, "$1[redacted]").replace(code, "$1[redacted]")

/**
 * `dk_…` becomes `dk_[redacted]`, `whsec_…` `whsec_[redacted]`, and the code of a link `code=[redacted]`. Each of their characters
 * may be percent-encoded, any number of times.
 */
export const redactSecrets = (text: string): string => (text.includes("%") ? redactEncoded(text) : redactPlain(text))

const redactEncoded = (text: string): string => {
  const decoded = decodedAscii(text)
  const found = [...decoded.text.matchAll(secret), ...decoded.text.matchAll(code)]
  const redacted: Array<string> = []
  let end = 0
  for (const { 0: whole, 1: prefix = "", index } of found.toSorted((left, right) => left.index - right.index)) {
    const from = decoded.starts[index] ?? 0
    if (from < end) continue
    redacted.push(text.slice(end, from), prefix, "[redacted]")
    end = decoded.starts[index + whole.length] ?? text.length
  }
  return redacted.length === 0 ? text : redacted.join("") + text.slice(end)
}

const percent = 37

/**
 * Decodes the percent-encoded characters of ASCII until none is left, in one pass: a character that ends an encoding is replaced
 * with the two before it, and may itself end another. `starts` has the index in the text of each decoded character.
 */
const decodedAscii = (text: string): { readonly text: string; readonly starts: ReadonlyArray<number> } => {
  const codes: Array<number> = []
  const starts: Array<number> = []
  for (let i = 0; i < text.length; i++) {
    codes.push(text.charCodeAt(i))
    starts.push(i)
    for (let at = codes.length - 3; codes[at] === percent; at = codes.length - 3) {
      const decoded = hexDigit(codes[at + 1]) * 16 + hexDigit(codes[at + 2])
      // An encoded control character, or a byte of a longer character, is part of no secret.
      if (!(decoded >= 32 && decoded < 127)) break
      codes.length = starts.length = at + 1
      codes[at] = decoded
    }
  }
  return { text: textOf(codes), starts }
}

/** Returns the value of a hexadecimal digit; NaN for another character. */
const hexDigit = (code = 0): number =>
  code >= 48 && code <= 57 ? code - 48 : (code | 32) >= 97 && (code | 32) <= 102 ? (code | 32) - 87 : Number.NaN

/** A call takes some ten thousand arguments at most. */
const chunk = 8_192

const textOf = (codes: ReadonlyArray<number>): string => {
  let text = ""
  for (let i = 0; i < codes.length; i += chunk) text += String.fromCharCode(...codes.slice(i, i + chunk))
  return text
}
