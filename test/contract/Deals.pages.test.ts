/** The pages of the deal list: their filters, their order and their cursors (contract §6, §7). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { open } from "./Deals.support.ts"
import { at, inOrder } from "./Lists.ts"

type File = NonNullable<Parts["deals"]>

const statuses = ["open", "won", "lost"] as const
const statusOf = (index: number) => statuses[index % 3] ?? "open"

const lifecycles = ["active", "archived"] as const
const lifecycleOf = (index: number) => lifecycles[index % 2] ?? "active"

/** Returns deals of every status and lifecycle; each `tied` of them were created at once. */
const many = (count: number, tied = 1): File =>
  Array.from({ length: count }, (_, index) => ({
    id: `d${String(index).padStart(4, "0")}`,
    title: `Deal ${index}`,
    // Successive deals differ in both, also those that were created at once.
    lifecycle: lifecycleOf(index),
    status: statusOf(index),
    createdAt: at(Math.floor(index / tied))
  }))

interface Filter {
  readonly lifecycle?: "active" | "archived" | "all"
  readonly status?: "open" | "won" | "lost" | "all"
}

/** Every combination of the filters, each also left out. */
const filters: ReadonlyArray<Filter> = [
  {},
  ...[...lifecycles, "all" as const].map((lifecycle) => ({ lifecycle }))
].flatMap((filter) => [filter, ...[...statuses, "all" as const].map((status) => ({ ...filter, status }))])

const queryOf = (filter: Filter, more: Readonly<Record<string, string>> = {}) =>
  new URLSearchParams({ ...filter, ...more }).toString()

/** Returns a filter with the defaults of the contract. */
const meaningOf = ({ lifecycle = "active", status = "all" }: Filter) => ({ lifecycle, status })

const matching = (deals: File, filter: Filter) => {
  const { lifecycle, status } = meaningOf(filter)
  return deals.filter((deal) => [deal.lifecycle, "all"].includes(lifecycle) && [deal.status, "all"].includes(status))
}

layer(TestServer.layer(), { excludeTestServices: true })("the list of deals", (it) => {
  for (const filter of filters) {
    it.effect(`with ${queryOf(filter) || "no filter"} shows matching deals in order at every page size`, () =>
      Effect.gen(function* () {
        const deals = many(36, 9)
        const { page, walk } = yield* open({ deals })
        const expected = inOrder(matching(deals, filter))
        assert.isAbove(expected.length, 5)
        for (const limit of [4, expected.length]) {
          const pages = yield* walk(queryOf(filter, { limit: String(limit) }))
          assert.deepStrictEqual(pages.flat(), expected)
          assert.strictEqual(pages.length, Math.ceil(expected.length / limit))
        }
        for (const { lifecycle, status } of (yield* page(queryOf(filter))).items) {
          assert.isTrue(matching([{ id: "", title: "", lifecycle, status }], filter).length === 1)
        }
      })
    )
  }

  it.effect("shows a deal under the filter that it matches after a change", () =>
    Effect.gen(function* () {
      const { created, patched, walk } = yield* open()
      const { id } = yield* created()
      const shownBy = Effect.gen(function* () {
        const shown: Array<string> = []
        for (const lifecycle of lifecycles) {
          for (const status of statuses) {
            if ((yield* walk(queryOf({ lifecycle, status }))).flat().includes(id)) shown.push(`${lifecycle} ${status}`)
          }
        }
        return shown
      })
      assert.deepStrictEqual(yield* shownBy, ["active open"])
      yield* patched(id, { status: "lost" })
      assert.deepStrictEqual(yield* shownBy, ["active lost"])
      yield* patched(id, { lifecycle: "archived" })
      assert.deepStrictEqual(yield* shownBy, ["archived lost"])
      yield* patched(id, { status: "open" })
      assert.deepStrictEqual(yield* shownBy, ["archived open"])
    })
  )

  it.effect("shows each deal that stays open exactly once while others open and close", () =>
    Effect.gen(function* () {
      const deals = many(120, 6).map((deal) => ({ ...deal, lifecycle: "active" as const, status: "open" as const }))
      const { patched, walk } = yield* open({ deals })
      const leaves = (index: number) => index % 3 === 0
      const gone = new Map<string, object>()
      const between = Effect.fnUntraced(function* (page: number) {
        for (const [id, back] of gone) {
          yield* patched(id, back)
          gone.delete(id)
        }
        for (const index of [page * 3, page * 9, page * 27].map((place) => place % 120)) {
          const { id } = deals[index] ?? assert.fail()
          if (gone.has(id)) continue
          const [away, back] =
            page % 2 === 0
              ? [{ status: "lost", lostReason: "x" }, { status: "open" }]
              : [{ lifecycle: "archived" }, { lifecycle: "active" }]
          yield* patched(id, away)
          gone.set(id, back)
        }
      })
      const seen = (yield* walk("status=open&limit=7", between)).flat()
      assert.strictEqual(new Set(seen).size, seen.length)
      const stayed = deals.filter((_, index) => !leaves(index))
      assert.deepStrictEqual(
        seen.filter((id) => stayed.some((deal) => deal.id === id)),
        inOrder(stayed)
      )
    })
  )
})

layer(TestServer.layer(), { excludeTestServices: true })("a cursor of the list of deals", (it) => {
  it.effect("remains valid when its deal no longer matches the filter", () =>
    Effect.gen(function* () {
      const deals = many(8).map((deal) => ({ ...deal, lifecycle: "active" as const, status: "open" as const }))
      const { page, patched } = yield* open({ deals })
      const first = yield* page("status=open&limit=3")
      yield* patched(first.items.at(-1)?.id ?? assert.fail(), { status: "won", lifecycle: "archived" })
      const rest = yield* page(`status=open&cursor=${first.nextCursor}`)
      assert.deepStrictEqual(
        rest.items.map(({ id }) => id),
        inOrder(deals).slice(3)
      )
    })
  )
})
