/** Every list of records with a status: the records that match its filters, each also left out (contract §6, §7). */
import { assert, layer } from "../support/Vitest.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { at, callsOf, inOrder, lists } from "./Lists.ts"
import { pipelines } from "./Deals.support.ts"

type Values = Readonly<Record<string, string>>

interface Filtered {
  /** The values of each filter, and the one that it has when it is left out. */
  readonly filters: Readonly<Record<string, { readonly usual: string; readonly values: ReadonlyArray<string> }>>
  readonly partsOf: (records: ReadonlyArray<{ readonly id: string; readonly createdAt: string } & Values>) => object
}

const lifecycle = { usual: "active", values: ["active", "archived"] }

const filtered: Readonly<Record<string, Filtered>> = {
  listClients: {
    filters: { status: { usual: "all", values: ["active", "archived"] } },
    partsOf: (records) => ({ clients: records.map((record) => ({ displayName: "Listed", ...record })) })
  },
  listDeals: {
    filters: { lifecycle, status: { usual: "all", values: ["open", "won", "lost"] } },
    partsOf: (records) => ({
      project: { defaultPipelineId: "sales" },
      pipelines,
      deals: records.map((record) => ({ title: "Listed", ...record }))
    })
  }
}

/** Returns every choice of filters: each left out, with each of its values, and with all of them. */
const choicesOf = ({ filters }: Filtered) =>
  Object.entries(filters).reduce<ReadonlyArray<Values>>(
    (choices, [name, { values }]) =>
      choices.flatMap((choice) => [choice, ...[...values, "all"].map((value) => ({ ...choice, [name]: value }))]),
    [{}]
  )

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a list with filters", (it) => {
  for (const [name, list] of Object.entries(filtered)) {
    it.effect(`shows the records that match in order at every page size: ${name}`, function* () {
      // Successive records differ in each member, also those that were created at once.
      const records = Array.from({ length: 36 }, (_, index) => {
        const members = Object.entries(list.filters).map(([name, { values }]) => [name, values[index % values.length]])
        return { id: `r${index}`, createdAt: at(Math.floor(index / 9)), ...Object.fromEntries(members) }
      })
      const server = yield* TestServer
      const parts: Parts = JSON.parse(JSON.stringify(list.partsOf(records)))
      const { walk } = callsOf(lists[name] ?? assert.fail(name), server, yield* server.seed(parts))
      for (const choice of choicesOf(list)) {
        const expected = inOrder(
          records.filter((record) =>
            Object.entries(list.filters).every(([name, { usual }]) =>
              ["all", record[name]].includes(choice[name] ?? usual)
            )
          )
        )
        assert.isAbove(expected.length, 5)
        for (const limit of ["4", String(expected.length)]) {
          const query = new URLSearchParams({ ...choice, limit }).toString()
          const pages = yield* walk(query)
          assert.deepStrictEqual(pages.flat(), expected, query)
          assert.strictEqual(pages.length, Math.ceil(expected.length / Number(limit)), query)
        }
      }
    })
  }
})
