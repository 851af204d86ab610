/** Segments as a project file creates and changes them (contract §9). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestServer } from "../support/TestServer.ts"
import { open } from "./Campaigns.support.ts"

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the list of segments", (it) => {
  it.effect("is empty at first, and then as the project file defines it", () =>
    Effect.gen(function* () {
      const { apply, segments } = yield* open()
      assert.deepStrictEqual(yield* segments(), { items: [], nextCursor: null, link: undefined })
      yield* apply({
        clients: [
          { id: "ada", displayName: "Ada", status: "archived" },
          { id: "bob", displayName: "Bob", mergedIntoClientId: "ada" }
        ],
        segments: [{ id: "all", name: "All", clientIds: ["ada", "bob"] }]
      })
      const [made] = (yield* segments()).items
      assert.deepStrictEqual(made, {
        id: "all",
        name: "All",
        description: null,
        // Archived and merged clients count too.
        contactCount: 2,
        createdAt: made?.createdAt ?? "",
        updatedAt: made?.createdAt ?? ""
      })
      yield* apply({ segments: [{ id: "all", name: "Every", description: "One", clientIds: ["ada"] }] })
      const [changed] = (yield* segments()).items
      assert.deepInclude(changed, {
        name: "Every",
        description: "One",
        contactCount: 1,
        createdAt: made?.createdAt ?? ""
      })
      assert.isTrue((changed?.updatedAt ?? "") > (made?.updatedAt ?? ""))
    })
  )
})
