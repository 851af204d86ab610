/** The samples of the reference, run as programs in each language. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect, Schema } from "effect"
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { pathOf, type Program, requires } from "../support/Programs.ts"
import { withDeals } from "../support/Rows.ts"
import { startServer } from "../support/TestServer.ts"

const run = promisify(execFile)

const Viewed = Schema.Struct({
  paths: Schema.Record(
    Schema.String,
    Schema.Record(
      Schema.String,
      Schema.Struct({
        operationId: Schema.String,
        "x-codeSamples": Schema.Array(Schema.Struct({ lang: Schema.String, source: Schema.String }))
      })
    )
  )
})

/** How each language runs a program that is given as text, and the programs that it needs. */
const languages: Readonly<
  Record<
    string,
    { readonly needs: ReadonlyArray<Program>; readonly command: (source: string) => [string, ...string[]] }
  >
> = {
  shell: { needs: ["curl"], command: (source) => ["sh", "-c", `${source} --silent --write-out ' %{http_code}'`] },
  javascript: { needs: [], command: (source) => [process.execPath, "--input-type=module", "--eval", source] },
  python: { needs: ["python3"], command: (source) => [pathOf("python3"), "-c", source] },
  php: { needs: ["php"], command: (source) => [pathOf("php"), "-r", source.replace("<?php", "")] }
}

describe.each(Object.entries(languages))("the samples in %s", (language, { command, needs }) => {
  for (const program of needs) requires(program)

  it.live("read a record, and create another one each time that they run", function* () {
    const { seed, send, sql, url } = yield* startServer()
    const { projectId, token } = yield* seed({
      clients: [{ id: "cli_mara", displayName: "Mara" }],
      ...withDeals()
    })
    const { paths } = Schema.decodeUnknownSync(Viewed)((yield* send({ path: "/docs/openapi.json" })).json)
    const sampleOf = (name: string) =>
      Object.values(paths)
        .flatMap((path) => Object.values(path))
        .find(({ operationId }) => operationId === name)
        ?.["x-codeSamples"].find(({ lang }) => lang === language)?.source ?? assert.fail(name)
    const printed = async (name: string) => {
      const [program, ...args] = command(sampleOf(name))
      const { stdout } = await run(program, args, { env: { ...process.env, TOKEN: token } })
      return stdout
    }
    assert.include(sampleOf("getClient"), url)
    const read = yield* Effect.promise(() => printed("getClient"))
    assert.match(read, /\b200\b/)
    assert.match(read, /["']Mara["']/)
    const creating = ["createClient", "createDeal", "createCampaign"]
    for (const name of [...creating, ...creating]) {
      assert.match(yield* Effect.promise(() => printed(name)), /\b201\b/, name)
    }
    const keys = yield* sql<{ key: string }>`SELECT key FROM idempotency_keys WHERE project_id = ${projectId}`
    assert.strictEqual(new Set(keys.map(({ key }) => key)).size, 6)
    const { json } = yield* send({ path: "/api/v1/developer/campaigns", token })
    assert.lengthOf(Schema.decodeUnknownSync(Schema.Struct({ items: Schema.Array(Schema.Unknown) }))(json).items, 2)
  })
})
