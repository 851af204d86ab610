/**
 * Text: what no text may contain (contract §1), what is left out when a text is shown (characters that act on a terminal, and secrets),
 * and how texts for operators write counts, durations and commands.
 */
/** Whether a text has U+0000 or an unpaired surrogate, which PostgreSQL can't store. */
export const isUnsafe = (text: string): boolean => text.includes("\u0000") || !text.isWellFormed()

export const unsafeMessage = "must not contain U+0000 or an unpaired surrogate"

/** Whether a text shows nothing: it has only spaces, control characters, and characters without a glyph (U+2800, U+3164). */
export const isBlank = (text: string): boolean => /^[\p{Z}\p{C}\p{Default_Ignorable_Code_Point}\u2800]+$/u.test(text)

/** Characters that act on a terminal, break a line, turn the direction of text (U+202E) or are invisible (U+200B). */
const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]+/gu

export const withoutInvisible = (text: string): string => text.replace(invisible, " ")

/** Writes invisible characters as in JSON: `\u202e`. */
export const withEscapes = (text: string): string =>
  text.replace(invisible, (characters) =>
    characters
      .split("")
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
      .join("")
  )

/** Includes `~`, because the location of a fault (RFC 6901) contains `~1` for each `/` of a secret. */
const secret = /((?:dk|whsec)_)[A-Za-z0-9+/=_%~-]{6,}/gi

/** The code in a sign-in link to the console. */
const code = /\b(code=)[A-Za-z0-9_-]{43}/g

/** The token of a bot of Telegram, which an answer of a provider may repeat. */
const botToken = /\b(\d{4,}:)[A-Za-z0-9_-]{30,}/g

/**
 * Replaces tokens, signing secrets and codes of sign-in links, in text that is logged, traced or answered, by their first
 * characters and `[redacted]`, for example `dk_[redacted]`.
 */
export const redactSecrets = (text: string): string =>
  [secret, code, botToken].reduce((rest, pattern) => rest.replace(pattern, "$1[redacted]"), text)

export const plural = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`

const units = { day: 86_400, hour: 3_600, minute: 60 }

/** A duration in its largest whole unit. */
export const duration = (seconds: number): string => {
  const [unit, length] = Object.entries(units).find(([, length]) => seconds >= length) ?? ["second", 1]
  return plural(Math.floor(seconds / length), unit, `${unit}s`)
}

/** The beginning of a command line, in usage, examples and advice. */
export const cli = "npm run --silent cli --"
