/** Redacts tokens, signing secrets and codes of sign-in links in text that is logged, traced or answered. */

/** Includes `~`, because the location of a fault (RFC 6901) contains `~1` for each `/` of a secret. */
const secret = /((?:dk|whsec)_)[A-Za-z0-9+/=_%~-]{6,}/gi

/** The code in a sign-in link to the console. */
const code = /\b(code=)[A-Za-z0-9_-]{43}/g

const redactPlain = (text: string): string => text.replace(secret, "$1[redacted]").replace(code, "$1[redacted]")

/**
 * Replaces secrets in a text by `dk_[redacted]`, `whsec_[redacted]` and `code=[redacted]`. Also finds secrets with characters that
 * are percent-encoded, once or several times.
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
 * Decodes percent-encoded printable ASCII characters until none is left. One pass is enough: a decoded character takes the place
 * of its encoding, and may then be the end of another encoding. `starts` has, for each character of the result, its index in the
 * given text.
 */
const decodedAscii = (text: string): { readonly text: string; readonly starts: ReadonlyArray<number> } => {
  const codes: Array<number> = []
  const starts: Array<number> = []
  for (let i = 0; i < text.length; i++) {
    codes.push(text.charCodeAt(i))
    starts.push(i)
    for (let at = codes.length - 3; codes[at] === percent; at = codes.length - 3) {
      const decoded = hexDigit(codes[at + 1]) * 16 + hexDigit(codes[at + 2])
      // Secrets contain neither control characters nor characters beyond ASCII.
      if (!(decoded >= 32 && decoded < 127)) break
      codes.length = starts.length = at + 1
      codes[at] = decoded
    }
  }
  return { text: textOf(codes), starts }
}

const hexDigit = (code = 0): number =>
  code >= 48 && code <= 57 ? code - 48 : (code | 32) >= 97 && (code | 32) <= 102 ? (code | 32) - 87 : Number.NaN

/** Maximum number of arguments of one call of `String.fromCharCode`. Very many would overflow the stack. */
const chunk = 8_192

const textOf = (codes: ReadonlyArray<number>): string => {
  let text = ""
  for (let i = 0; i < codes.length; i += chunk) text += String.fromCharCode(...codes.slice(i, i + chunk))
  return text
}
