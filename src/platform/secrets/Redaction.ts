/** Redacts tokens, signing secrets and codes of sign-in links in text that is logged, traced or answered. */

/** Includes `~`, because the location of a fault (RFC 6901) contains `~1` for each `/` of a secret. */
const secret = /((?:dk|whsec)(?:_|%5F))[A-Za-z0-9+/=_%~-]{6,}/gi

/** The code in a sign-in link to the console. */
const code = /\b(code=)[A-Za-z0-9_-]{43}/g

/** Replaces secrets in a text by `dk_[redacted]`, `whsec_[redacted]` and `code=[redacted]`. */
export const redactSecrets = (text: string): string =>
  text.replace(secret, "$1[redacted]").replace(code, "$1[redacted]")
