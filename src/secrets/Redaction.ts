/** Redacts tokens, signing secrets and codes of sign-in links in text that is logged, traced or answered. */

/** Includes `~`, because the location of a fault (RFC 6901) contains `~1` for each `/` of a secret. */
const secret = /((?:dk|whsec)(?:_|%5F))[A-Za-z0-9+/=_%~-]{6,}/gi

/** The code in a sign-in link to the console. */
const code = /\b(code=)[A-Za-z0-9_-]{43}/g

/** The token of a bot of Telegram, which an answer of a provider may repeat. */
const botToken = /\b(\d{4,}:)[A-Za-z0-9_-]{30,}/g

/** Replaces secrets in a text by their first characters and `[redacted]`, for example `dk_[redacted]`. */
export const redactSecrets = (text: string): string =>
  [secret, code, botToken].reduce((rest, pattern) => rest.replace(pattern, "$1[redacted]"), text)
