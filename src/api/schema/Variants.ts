/** Bodies with variants, selected by one member. */
import { Predicate, Schema } from "effect"

const annotation = "developer-api/discriminator"

interface Discriminator {
  readonly member: string
  readonly values: ReadonlyArray<string>
}

/** Makes a union whose variants each have a literal at `member`. The literal selects the variant that checks a value. */
export const variants = <
  const Member extends string,
  const Variants extends ReadonlyArray<
    Schema.Top & { readonly fields: Readonly<Record<Member, { readonly literal: string } & Schema.Top>> }
  >
>(
  member: Member,
  of: Variants
) =>
  Schema.Union(of, { mode: "oneOf" }).annotate({
    [annotation]: { member, values: of.map(({ fields }) => fields[member].literal) } satisfies Discriminator
  })

/** Returns the discriminator of a union that `variants` has made. */
export const discriminatorOf = ({ ast }: Schema.Top): Discriminator | undefined => {
  const found = ast.annotations?.[annotation]
  return isDiscriminator(found) ? found : undefined
}

const isDiscriminator = (value: unknown): value is Discriminator =>
  Predicate.hasProperty(value, "member") && Predicate.hasProperty(value, "values")
