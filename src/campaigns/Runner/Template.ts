/** The text that a recipient gets. */
import type { Claim } from "./Claims.ts"

const placeholder = /\{\{(displayName|firstName|lastName)\}\}/g

/** Names that are missing are empty; whatever else stands in braces stays as it is (contract §9). */
export const rendered = (template: string, names: Pick<Claim, "displayName" | "firstName" | "lastName">): string =>
  template.replace(placeholder, (whole, name: string) =>
    name === "displayName" || name === "firstName" || name === "lastName" ? (names[name] ?? "") : whole
  )
