/** Checks that `npm run sql` shows every statement. */
import { assert, describe, it } from "vitest"
import { checkout, runToEnd } from "../support/Process.ts"
import { join } from "node:path"

/** Templates whose statement the walk does not send. */
const unreached = [
  // The first start with an embedded database checks whether it is new.
  "src/server/Welcome.ts"
]

describe("npm run sql", () => {
  it("shows every SQL template of the source as part of a statement, each with its plan", async () => {
    const hooks = join(checkout, "test/sql/hooks.ts")
    const { code, stderr, stdout } = await runToEnd("node", ["--import", hooks, "test/sql/run.ts", "--plans"])
    assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
    assert.deepStrictEqual(
      [...stdout.matchAll(/^-- not sent by the walk: ([^:]+)/gm)].map(([, file]) => file),
      unreached
    )
    assert.notMatch(stdout, /no plan/)
    assert.isAbove([...stdout.matchAll(/^-- source: /gm)].length, 100)
  })
})
