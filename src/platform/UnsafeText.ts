/** Characters that no string may contain (contract §1): U+0000 and unpaired surrogates. */

// oxlint-disable-next-line no-control-regex -- the pattern matches U+0000
const unsafe = /\u0000|\p{Surrogate}/u

export const isUnsafe = (text: string): boolean => unsafe.test(text)

export const unsafeMessage = "must not contain U+0000 or an unpaired surrogate"
