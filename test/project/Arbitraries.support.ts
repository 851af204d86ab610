/** Parts of generated project files. */
import * as fc from "fast-check"

export const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: null })
export const text = (maxLength: number) =>
  fc
    .string({ unit: "binary", minLength: 1, maxLength })
    .filter((value) => value.isWellFormed() && !value.includes("\u0000"))
/** Any id, but often one that an earlier file has used. */
export const id = fc.oneof(text(160), fc.constantFrom("a", "b", "c", "d"))
export const byId = { selector: ({ id }: { readonly id: string }) => id, maxLength: 6 }

/** Every member but the required ones may be absent. */
export const record = <T, K extends keyof T>(members: { [P in keyof T]: fc.Arbitrary<T[P]> }, requiredKeys: Array<K>) =>
  fc.record(members, { requiredKeys })
