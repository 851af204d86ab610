/** Characters that no string of this service holds (contract §1): U+0000, and surrogates without their partner. */

// oxlint-disable-next-line no-control-regex -- U+0000 is what is looked for
const unsafe = /\u0000|\p{Surrogate}/u

export const isUnsafe = (text: string): boolean => unsafe.test(text)

export const unsafeMessage = "must not contain U+0000 or an unpaired surrogate"
