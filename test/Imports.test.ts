/** The rooms of the house and the directions between them, held against every import of `src`. */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, normalize, relative } from "node:path"

const root = join(import.meta.dirname, "..")

interface Import {
  readonly from: string
  readonly to: string
}

const files = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts"))
  .map((file) => join("src", file))

const imports: ReadonlyArray<Import> = files.flatMap((from) =>
  [...readFileSync(join(root, from), "utf8").matchAll(/(?:from|import)\s*\(?\s*"([^"\s]+)"/g)].flatMap(
    ([, to = ""]) => [{ from, to: to.startsWith(".") ? normalize(join(dirname(from), to)) : to }]
  )
)

/** What a room may import, itself apart. A room that is not listed may not be. */
const rooms: Readonly<Record<string, ReadonlyArray<string>>> = {
  api: [],
  platform: ["api"],
  crm: ["platform", "api"],
  messaging: ["crm", "platform", "api"],
  campaigns: ["messaging", "crm", "platform", "api"],
  integrations: ["crm", "platform", "api"],
  project: ["campaigns", "integrations", "messaging", "crm", "platform", "api"],
  console: ["integrations", "messaging", "platform", "api"],
  server: ["console", "project", "campaigns", "integrations", "messaging", "crm", "platform", "api"],
  cli: ["server", "console", "project", "campaigns", "integrations", "messaging", "crm", "platform", "api"],
  client: ["api"],
  "client.ts": ["client", "api"],
  "cli.ts": ["cli"],
  "main.ts": ["cli"]
}

const roomOf = (file: string) => relative("src", file).split("/")[0] ?? ""
const isLocal = ({ to }: Import) => to.startsWith("src/")
const show = ({ from, to }: Import) => `${from} → ${to}`

describe("imports", () => {
  it("follow the allowed directions between folders", () => {
    const wrong = imports.filter(isLocal).filter(({ from, to }) => {
      const [here, there] = [roomOf(from), roomOf(to)]
      return here !== there && !(rooms[here] ?? []).includes(there)
    })
    assert.deepStrictEqual(wrong.map(show), [])
    assert.deepStrictEqual(
      files.filter((file) => rooms[roomOf(file)] === undefined),
      []
    )
  })

  it("of the contract and of the client come from effect alone", () => {
    const wrong = imports.filter(
      (line) =>
        ["api", "client", "client.ts"].includes(roomOf(line.from)) && !isLocal(line) && !/^effect(\/|$)/.test(line.to)
    )
    assert.deepStrictEqual(wrong.map(show), [])
  })

  it("of packages in src come from production dependencies alone", () => {
    const { dependencies } = JSON.parse(readFileSync(join(root, "deploy/package.json"), "utf8"))
    const wrong = imports.filter((line) => {
      const name = /^(@[^/]+\/)?[^/]+/.exec(line.to)?.[0] ?? ""
      return !isLocal(line) && !/^(node:|migrations\/|package\.json$)/.test(line.to) && !(name in dependencies)
    })
    assert.deepStrictEqual(wrong.map(show), [])
  })

  it("of a Repo come from its own service alone", () => {
    const wrong = imports.filter(
      ({ from, to }) => to.endsWith("/Repo.ts") && from !== `${dirname(to)}.ts` && dirname(from) !== dirname(to)
    )
    assert.deepStrictEqual(wrong.map(show), [])
  })

  it("of Http files contain no SQL module", () => {
    const wrong = imports.filter(({ from, to }) => from.endsWith("/Http.ts") && /sql|\/Repo\.ts$/.test(to))
    assert.deepStrictEqual(wrong.map(show), [])
  })

  it("find no index files and no folders by kind", () => {
    const wrong = files.filter((file) => /(^|\/)(index\.ts|utils|common|services|layers|errors)(\/|\.ts|$)/.test(file))
    assert.deepStrictEqual(wrong, [])
  })

  it("read process.env in Settings alone", () => {
    const wrong = files.filter((file) => readFileSync(join(root, file), "utf8").includes("process.env"))
    assert.deepStrictEqual(wrong, [])
  })
})
