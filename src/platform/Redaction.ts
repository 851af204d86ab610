/** Redacts tokens, signing secrets and codes of links in text that is logged, traced or answered. */

/** In a URL the underscores may be percent-encoded. */
const secret = /((?:dk|whsec)(?:_|%5F))[A-Za-z0-9+/=_%-]{6,}/gi

/** The code in a link to the console. */
const code = /\b(code=)[A-Za-z0-9_-]{43}/g

/** `dk_…` becomes `dk_[redacted]`, `whsec_…` `whsec_[redacted]`, and the code of a link `code=[redacted]`. */
export const redactSecrets = (text: string): string =>
  text.replace(secret, "$1[redacted]").replace(code, "$1[redacted]")
