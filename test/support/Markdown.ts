/** What the tests of documents read in Markdown. */

/** Returns a text without its code blocks, which have no links and no headings. */
export const proseOf = (markdown: string) => markdown.replaceAll(/^ *```.*?^ *```$/gms, "")

/** Returns the anchors of the headings, as GitHub makes them. */
export const anchorsOf = (markdown: string) =>
  new Set(
    [...proseOf(markdown).matchAll(/^#+ +(.+)$/gm)].map(([, heading = ""]) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_ -]/gu, "")
        .replaceAll(" ", "-")
    )
  )

/** Returns the targets of the links. */
export const linksOf = (markdown: string) =>
  [...proseOf(markdown).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target)
