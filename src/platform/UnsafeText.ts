/** Characters that no string may contain (contract §1), and characters that are not shown to an operator. */

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
