/** Takes whatever looks like a token or a signing secret out of text that is logged, traced or answered. */

const secret = /(dk_|whsec_)[A-Za-z0-9+/=_-]{6,}/g

/** `dk_…` and `whsec_…` become `dk_[redacted]` and `whsec_[redacted]`. */
export const redactSecrets = (text: string): string => text.replace(secret, "$1[redacted]")
