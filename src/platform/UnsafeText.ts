/** Characters that no string may contain (contract §1), and characters that are not shown to an operator. */

/** U+0000 and unpaired surrogates, which PostgreSQL can't store in text. */
// oxlint-disable-next-line no-control-regex -- the pattern matches U+0000
const unsafe = /\u0000|\p{Surrogate}/u

export const isUnsafe = (text: string): boolean => unsafe.test(text)

export const unsafeMessage = "must not contain U+0000 or an unpaired surrogate"

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
