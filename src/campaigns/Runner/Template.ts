/** Renders the text for a recipient. */
import type { Claim } from "./Claims.ts"

const placeholder = /\{\{(displayName|firstName|lastName)\}\}/g

/** Replaces the supported names; a missing name is empty, and other braces stay as they are (contract §9). */
export const rendered = (template: string, names: Pick<Claim, "displayName" | "firstName" | "lastName">): string =>
  template.replace(placeholder, (whole, name: string) =>
    name === "displayName" || name === "firstName" || name === "lastName" ? (names[name] ?? "") : whole
  )
