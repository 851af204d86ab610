/** Redacts tokens and signing secrets in text that is logged, traced or answered. */

/** In a URL the underscores may be percent-encoded. */
const secret = /((?:dk|whsec)(?:_|%5F))[A-Za-z0-9+/=_%-]{6,}/gi

/** `dk_…` and `whsec_…` become `dk_[redacted]` and `whsec_[redacted]`. */
export const redactSecrets = (text: string): string => text.replace(secret, "$1[redacted]")
