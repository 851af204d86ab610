/** Segments as a project file makes and changes them, and their pages meanwhile (contract §6, §9). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { walkPages } from "../support/Pages.ts"
import { TestServer } from "../support/TestServer.ts"
import { open } from "./Campaigns.support.ts"
import { at, inOrder, many } from "./Lists.ts"

type Calls = Effect.Success<ReturnType<typeof open>>

const insert = ({ projectId, server }: Calls, segments: ReturnType<typeof many>) =>
  Effect.orDie(server.sql`
    INSERT INTO segments (project_id, id, name, contact_count, created_at, updated_at)
    SELECT ${projectId}, id, id, 0, "createdAt", "createdAt"
    FROM jsonb_to_recordset(${JSON.stringify(segments)}::jsonb) AS segment (id text, "createdAt" timestamptz)`)

const walk = ({ segments }: Calls, limit: number, between?: (page: number) => Effect.Effect<unknown>) =>
  walkPages(segments, `limit=${limit}`, between)

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
        // Archived and merged ones, too.
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

  it.effect("repeats and misses no segment while others are created and changed", () =>
    Effect.gen(function* () {
      const calls = yield* open()
      const stay = many(40)
      yield* insert(calls, stay)
      const between = Effect.fnUntraced(function* (page: number) {
        yield* insert(calls, [{ id: `inserted ${page}`, createdAt: at(page % 14) }])
        yield* calls.apply({
          segments: [
            { id: `new ${page}`, name: "N", clientIds: [] },
            { id: stay[page % 40]?.id ?? "", name: "Changed", clientIds: ["ada"] }
          ]
        })
      })
      const seen = (yield* walk(calls, 4, between)).flat()
      assert.strictEqual(new Set(seen).size, seen.length)
      const known = new Set(stay.map(({ id }) => id))
      assert.deepStrictEqual(
        seen.filter((id) => known.has(id)),
        inOrder(stay)
      )
    })
  )
})
