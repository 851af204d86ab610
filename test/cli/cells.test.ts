/** The setting CELL and the command `cells map` (contract §18): keys that begin with the cell, and a line for each other one. */
import { assert, layer } from "../support/Vitest.ts"
import { Schema } from "effect"
import { makeProject } from "../support/Projects.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import { cli, documentOf, failure } from "./Cli.support.ts"

const keyIdOf = Schema.decodeUnknownSync(Schema.Struct({ keyId: Schema.String }))
const inCell = { env: { CELL: "9z" } }

layer(TestDatabase.layer, { excludeTestServices: true })("the command `cells map`", (it) => {
  it.effect(
    "lists the keys that do not begin with the cell, which keys that are issued or rotated there do",
    function* () {
      yield* makeProject("map")
      const issue = (options?: { readonly env: Record<string, string> }) =>
        cli(["token", "issue", "--project", "map", "--name", "ci", "--scope", "all", "--json"], options)
      const idOf = (ended: Parameters<typeof documentOf>[0]) => keyIdOf(documentOf(ended)).keyId
      assert.deepStrictEqual(yield* cli(["cells", "map"], inCell), { status: 0, stdout: "", stderr: "" })

      const issued = idOf(yield* issue(inCell))
      const rotated = idOf(yield* cli(["token", "rotate", "--key", issued, "--json"], inCell))
      assert.deepStrictEqual(
        [issued, rotated].map((id) => id.slice(0, 2)),
        ["9z", "9z"]
      )
      // The same characters in another case are another cell.
      const others = [idOf(yield* issue({ env: { CELL: "9Z" } })), idOf(yield* issue({ env: { CELL: "02" } }))]
      assert.deepStrictEqual(yield* cli(["cells", "map"], inCell), {
        status: 0,
        stdout: others.toSorted().reduce((text, id) => `${text}${id} 9z\n`, ""),
        stderr: ""
      })
      assert.deepStrictEqual(documentOf(yield* cli(["cells", "map", "--json"], inCell)), {
        items: others.toSorted().map((keyId) => ({ keyId, cell: "9z" }))
      })
    }
  )

  it.effect("fails without CELL, and with one that is no name of a cell", function* () {
    assert.deepStrictEqual(
      yield* cli(["cells", "map"]),
      failure(1, "CELL is not set: it is the name of this cell, such as CELL=01")
    )
    for (const cell of ["1", "001", "é1", "-1"]) {
      assert.deepStrictEqual(
        yield* cli(["cells", "map"], { env: { CELL: cell } }),
        failure(1, "CELL must be two characters of 0-9, A-Z and a-z")
      )
    }
  })
})
