/** What an installation downloads is pinned by a hash: packages in the lock files, images by digest. Every start has the same flags. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { readFileSync } from "node:fs"
import { join, relative } from "node:path"
import { packageFile } from "../../src/documents/Discovery.ts"
import { nodeFlags } from "../support/Process.ts"

const root = join(import.meta.dirname, "../..")
const read = (file: string) => readFileSync(join(root, file), "utf8")

const Lock = Schema.fromJsonString(
  Schema.Struct({
    packages: Schema.Record(
      Schema.String,
      Schema.Struct({ version: Schema.optionalKey(Schema.String), integrity: Schema.optionalKey(Schema.String) })
    )
  })
)
const fetchedBy = (file: string) =>
  Object.entries(Schema.decodeSync(Lock)(read(file)).packages).filter(
    ([path, { version }]) => path.includes("node_modules/") && version !== undefined
  )

describe("the lock files", () => {
  // npm writes no hash for optional packages that its registry lacks. Remove such entries, and their names from the
  // `optionalDependencies` beside them in the lock file: otherwise `npm ci` installs them unchecked on their platforms.
  it.each(["package-lock.json", "test/bench/package-lock.json", "test/judges/package-lock.json"])(
    "have the hash of every package that is fetched, and name no registry: %s",
    (file) => {
      const fetched = fetchedBy(file)
      assert.isAbove(fetched.length, 100)
      assert.deepStrictEqual(
        fetched.flatMap(([path, { integrity }]) => (integrity === undefined ? [path] : [])),
        []
      )
      assert.notInclude(read(file), '"resolved": "http')
    }
  )
})

describe("the container images", () => {
  it("are named by a version and its digest", () => {
    const lines = `${read("deploy/Dockerfile")}\n${read("deploy/compose.yaml")}`.split("\n")
    const named = lines.flatMap((line) => /^(?:FROM|\s+image:) (\S+[:@]\S+)/.exec(line)?.[1] ?? [])
    assert.lengthOf(named, 6)
    for (const image of named) assert.match(image, /^[a-z/-]+:v?\d+\.\d+[.\d]*(?:-slim)?@sha256:[0-9a-f]{64}$/)
  })

  it("are built from the files that they contain, and from no others", () => {
    const copied = [...read("deploy/Dockerfile").matchAll(/^COPY ([^-].*) \S+$/gm)].flatMap(([, from = ""]) =>
      from.split(" ")
    )
    const sent = [...read(".dockerignore").matchAll(/^!(.*)$/gm)].map(([, path]) => path)
    assert.include(read(".dockerignore"), "\n*\n")
    assert.deepStrictEqual(
      [...new Set(copied.map((path) => path.replace(/^src\/.*/, "src")))].toSorted(),
      sent.toSorted()
    )
  })

  it("have the package of the client where the service looks for it", () => {
    const [, ...paths] = /^COPY --from=client \/app\/(\S+) (\S+)$/m.exec(read("deploy/Dockerfile")) ?? []
    assert.deepStrictEqual(paths, [relative(root, packageFile), relative(root, packageFile)])
  })

  it("run the Node that npm installs elsewhere", () => {
    const [, image] = /^FROM node:([\d.]+)-slim@/m.exec(read("deploy/Dockerfile")) ?? []
    const pinned = fetchedBy("package-lock.json").filter(([path]) =>
      /^node_modules\/node-(?:bin-)?(?:linux|darwin|win)-(?:x64|arm64)$/.test(path)
    )
    assert.lengthOf(pinned, 5)
    for (const [path, { version }] of pinned) assert.strictEqual(version, image, path)
  })
})

describe("the flags of Node", () => {
  it("are the same in npm start, the image and the unit of systemd, as measured", () => {
    const flags = nodeFlags.join(" ")
    assert.include(read("package.json"), ` exec node ${flags} src/main.ts"`)
    assert.include(read("deploy/developer-api.service"), `/node ${flags} src/main.ts\n`)
    assert.include(
      read("deploy/Dockerfile"),
      `\nENTRYPOINT ${JSON.stringify(["node", ...nodeFlags]).replaceAll(",", ", ")}\n`
    )
  })
})
