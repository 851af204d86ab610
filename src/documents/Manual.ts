/**
 * Renders a manual, which is Markdown, as a page that looks like the console: a list of its sections beside its text, an anchor
 * for each heading, and nothing that is loaded from elsewhere.
 */
import { Marked, type Token, type Tokens } from "marked"
import { createHash } from "node:crypto"
import { style as consoleStyle } from "../console/Style.ts"
import { html } from "../console/Html.ts"
import type { Fixed } from "./FixedAnswer.ts"

const style = `${consoleStyle}
.manual { display: grid; grid-template-columns: 14rem minmax(0, 58rem); gap: 0 3rem; padding-top: 1rem; }
.manual nav { display: block; position: sticky; top: 0; align-self: start; max-height: 100vh; overflow: auto; padding: 1rem 0; }
.manual nav a { display: block; padding: .1rem 0; } .manual nav .inner { padding-left: 1rem; }
h1, h2, h3 { scroll-margin-top: 1rem; } article h1 a, article h2 a, article h3 a { color: inherit; text-decoration: none; }
article a:hover { text-decoration: underline; } article h1:not(:first-child) { margin-top: 3rem; } article code { overflow-wrap: anywhere; }
article td code:not([title]) { display: inline; margin: 0; overflow-wrap: inherit; } article table { margin: 1rem 0; }
@media (max-width: 900px) {
  .manual { display: block; } .manual nav { position: static; max-height: none; columns: 9rem; } .manual nav .inner { display: none; }
}
@media (max-width: 600px) { article td:empty { display: none; } }
`

/** A page runs no script. It has only its style sheet, which the policy allows by its hash, and an empty icon. */
const policy =
  `default-src 'none'; style-src 'sha256-${createHash("sha256").update(style).digest("base64")}'; img-src data:; ` +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const documents = { docs: "Reference", contract: "Contract", client: "Client", agents: "Agents" }

export const manualPage = (markdown: string): Fixed => ({
  body: Buffer.from(pageOf(markdown)),
  contentType: "text/html; charset=utf-8",
  headers: { "content-security-policy": policy, "referrer-policy": "no-referrer" }
})

const pageOf = (markdown: string): string => {
  const tokens = marked.lexer(withSections(markdown))
  const headings = tokens.filter(isHeading)
  const [title, ...sections] = headings
  const link = ({ depth, text }: Tokens.Heading) =>
    `<a href="#${anchorOf(text)}" class="${depth > 2 ? "inner" : "outer"}">${plain(text)}</a>`
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>${plain(title?.text ?? "")} · developer-api</title>
    <link rel="icon" href="data:," />
    <style>${style}</style>
  </head>
  <body>
    <header>
      <nav aria-label="Documents"><span class="home">developer-api</span>
        ${Object.entries(documents)
          .map(([path, name]) => `<a href="${path}">${name}</a>`)
          .join(" ")}
      </nav>
    </header>
    <main class="manual">
      <nav aria-label="Contents">${sections.map(link).join("\n")}</nav>
      <article>${marked.parser(tokens)}</article>
    </main>
  </body>
</html>
`
}

/** Turns the citations of the manual's own sections, such as §7, into links. */
const withSections = (markdown: string): string => {
  const anchors = new Map(
    [...markdown.matchAll(/^## (§\d+)\. .*$/gm)].map(([line, cited]) => [cited, anchorOf(line.slice(3))])
  )
  return markdown.replaceAll(/(?<=^[^#\n].*)(?<!\[)§\d+/gm, (cited) => {
    const anchor = anchors.get(cited)
    return anchor === undefined ? cited : `[${cited}](#${anchor})`
  })
}

const isHeading = (token: Token): token is Tokens.Heading => token.type === "heading"

const plain = (text: string) => String(html`${text.replaceAll("`", "")}`)

const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_ -]/gu, "")
    .replaceAll(" ", "-")

const marked = new Marked({
  renderer: {
    heading({ depth, text, tokens }) {
      const anchor = anchorOf(text)
      return `<h${depth} id="${anchor}"><a href="#${anchor}">${this.parser.parseInline(tokens)}</a></h${depth}>\n`
    },
    /** A path may break after each of its segments. */
    codespan: ({ text }) => `<code>${String(html`${text}`).replaceAll("/", "/<wbr>")}</code>`,
    /** The style sheet shows a table as cards on narrow screens, so a cell has the name of its column. */
    table({ header, rows }) {
      const cell = ({ tokens }: Tokens.TableCell, at: number) =>
        `<td role="cell" data-name="${plain(header[at]?.text ?? "")}">${this.parser.parseInline(tokens)}</td>`
      const row = (cells: ReadonlyArray<string>) => `<tr role="row">${cells.join("")}</tr>\n`
      return `<table role="table">
<thead role="rowgroup">${row(header.map(({ text }) => `<th role="columnheader" scope="col">${plain(text)}</th>`))}</thead>
<tbody role="rowgroup">${rows.map((cells) => row(cells.map(cell))).join("")}</tbody>
</table>\n`
    }
  }
})
