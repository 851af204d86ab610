/** The mutations of `npm run test:mutations`, which are run rarely: each still changes a source file. */
import { assert, it } from "@effect/vitest"
import { applies, mutations } from "./mutations/All.ts"

it("every mutation changes its source, and names tests that exist", () => {
  const outdated = mutations.filter((mutation) => !applies(mutation))
  assert.deepStrictEqual(
    outdated.map(({ file, from }) => `${file}: ${from}`),
    []
  )
  assert.isAbove(mutations.length, 400)
})
