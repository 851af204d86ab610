/** Templates of HTML. Every interpolated text is escaped, except the results of templates. */

/** HTML that a template has made. */
export class Html {
  readonly #text: string
  constructor(strings: TemplateStringsArray, values: ReadonlyArray<Content>) {
    this.#text = String.raw({ raw: strings }, ...values.map(textOf))
  }
  toString(): string {
    return this.#text
  }
}

/** What a template takes. Null and undefined leave their place empty. */
export type Content = Html | string | number | null | undefined | ReadonlyArray<Content>

export const html = (strings: TemplateStringsArray, ...values: ReadonlyArray<Content>): Html =>
  new Html(strings, values)

const textOf = (content: Content): string => {
  if (content === null || content === undefined) return ""
  if (typeof content === "string") return content.replace(/[&<>"']/g, (character) => entities[character] ?? "")
  return typeof content === "number" || content instanceof Html ? String(content) : content.map(textOf).join("")
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;"
}
