/** The pages of the deal list: their filters, their order and their cursors (contract §6, §7). */
import { assert, layer } from "../support/Vitest.ts"
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
  it.effect("shows the deals that match its filters in order at every page size", function* () {
    const deals = many(36, 9)
    const { page, walk } = yield* open({ deals })
    for (const filter of filters) {
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
    }
  })
})
