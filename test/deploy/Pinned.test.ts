/** Everything that an installation downloads is pinned by a hash: packages in the lock file, images by digest. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"

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
const fetched = Object.entries(Schema.decodeSync(Lock)(read("package-lock.json")).packages).filter(
  ([path, { version }]) => path.includes("node_modules/") && version !== undefined
)

describe("the lock file", () => {
  // npm writes no hash for optional packages that its registry lacks. Remove such entries, and their names from the
  // `optionalDependencies` beside them in the lock file: otherwise `npm ci` installs them unchecked on their platforms.
  it("has the hash of every package that is fetched", () => {
    assert.isAbove(fetched.length, 300)
    assert.deepStrictEqual(
      fetched.flatMap(([path, { integrity }]) => (integrity === undefined ? [path] : [])),
      []
    )
  })
})

describe("the container images", () => {
  it("are named by a version and its digest", () => {
    const lines = `${read("deploy/Dockerfile")}\n${read("deploy/compose.yaml")}`.split("\n")
    const named = lines.flatMap((line) => /^(?:FROM|\s+image:) (\S+[:@]\S+)/.exec(line)?.[1] ?? [])
    assert.lengthOf(named, 6)
    for (const image of named) assert.match(image, /^[a-z/-]+:v?\d+\.\d+[.\d]*(?:-slim)?@sha256:[0-9a-f]{64}$/)
  })

  it("run the Node that npm installs elsewhere", () => {
    const [, image] = /^FROM node:([\d.]+)-slim@/m.exec(read("deploy/Dockerfile")) ?? []
    const pinned = fetched.filter(([path]) =>
      /^node_modules\/node-(?:bin-)?(?:linux|darwin|win)-(?:x64|arm64)$/.test(path)
    )
    assert.lengthOf(pinned, 5)
    for (const [path, { version }] of pinned) assert.strictEqual(version, image, path)
  })
})
