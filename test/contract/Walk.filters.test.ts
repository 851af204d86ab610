/** Every list of records with filters: the records that match, by age and in the order of changes (contract §6, §7). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { at, callsOf, inOrder, lists } from "./Lists.ts"
import { pipelines } from "./Deals.support.ts"

type Values = Readonly<Record<string, string>>
type Made = { readonly id: string; readonly createdAt: string } & Values

interface Filter {
  readonly values: ReadonlyArray<string>
  /** Its value when it is left out: `all` unless another is given. */
  readonly usual?: string
  /** Whether `all` is a value of the filter. */
  readonly hasAll?: true
}

interface Filtered {
  readonly filters: Readonly<Record<string, Filter>>
  readonly partsOf: (records: ReadonlyArray<Made>) => object
}

const word = (...values: ReadonlyArray<string>): Filter => ({ values, hasAll: true })

const filtered: Readonly<Record<string, Filtered>> = {
  listClients: {
    filters: {
      status: word("active", "archived"),
      email: { values: ["Ada@example.com", "bo@example.com"] },
      phone: { values: ["+4915112345678", "+4915112345679"] }
    },
    partsOf: (records) => ({ clients: records.map((record) => ({ displayName: "Listed", ...record })) })
  },
  listDeals: {
    filters: {
      lifecycle: { ...word("active", "archived"), usual: "active" },
      status: word("open", "won", "lost"),
      clientId: { values: ["c", "d"] },
      stageId: { values: ["new", "agreed"] }
    },
    partsOf: (records) => ({
      project: { defaultPipelineId: "sales" },
      pipelines,
      clients: ["c", "d"].map((id) => ({ id, displayName: "Listed" })),
      deals: records.map((record) => ({ title: "Listed", ...record }))
    })
  }
}

/** Returns every choice of filters: each left out, with each of its values, and with all of them. */
const choicesOf = ({ filters }: Filtered) =>
  Object.entries(filters).reduce<ReadonlyArray<Values>>(
    (choices, [name, { hasAll, values }]) =>
      choices.flatMap((choice) => [
        choice,
        ...[...values, ...(hasAll ? ["all"] : [])].map((value) => ({ ...choice, [name]: value }))
      ]),
    [{}]
  )

/** Returns six records with each combination of the filters' values. Records that were created at once differ in them. */
const recordsOf = ({ filters }: Filtered): ReadonlyArray<Made> => {
  const combinations = Object.entries(filters).reduce<ReadonlyArray<Values>>(
    (all, [name, { values }]) => values.flatMap((value) => all.map((one) => ({ ...one, [name]: value }))),
    [{}]
  )
  return Array.from({ length: 6 * combinations.length }, (_, index) => {
    const made: Made = Object.assign(
      { id: `r${index}`, createdAt: at(Math.floor(index / 9)) },
      combinations[index % combinations.length]
    )
    return made
  })
}

const isEqual = (one: string | undefined, other: string | undefined) => one?.toLowerCase() === other?.toLowerCase()

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a list with filters", (it) => {
  for (const [name, list] of Object.entries(filtered)) {
    const open = Effect.fnUntraced(function* () {
      const server = yield* TestServer
      const records = recordsOf(list)
      const parts: Parts = JSON.parse(JSON.stringify(list.partsOf(records)))
      const { projectId, token } = yield* server.seed(parts)
      const calls = callsOf(lists[name] ?? assert.fail(name), server, { projectId, token })
      const matching = (choice: Values) =>
        records.filter((record) =>
          Object.entries(list.filters).every(([name, { usual = "all" }]) => {
            const value = choice[name] ?? usual
            return value === "all" || isEqual(value, record[name])
          })
        )
      return { ...calls, matching, records, server }
    })

    it.effect(`shows the records that match in order at every page size: ${name}`, function* () {
      const { matching, walk } = yield* open()
      for (const choice of choicesOf(list)) {
        const expected = inOrder(matching(choice))
        assert.isAbove(expected.length, 5)
        for (const limit of ["4", String(Math.min(100, expected.length))]) {
          const query = new URLSearchParams({ ...choice, limit }).toString().replace("Ada%40", "aDA%40")
          const pages = yield* walk(query)
          assert.deepStrictEqual(pages.flat(), expected, query)
          assert.strictEqual(pages.length, Math.ceil(expected.length / Number(limit)), query)
        }
      }
    })

    it.effect(`shows the records that have changed since a time, in the order of their changes: ${name}`, function* () {
      const { matching, projectId, server, walk } = yield* open()
      const [table] = lists[name]?.table ?? assert.fail(name)
      // In the opposite order of their ages, so that a list by age differs.
      yield* server.sql`
        UPDATE ${server.sql(table)} SET updated_at = ${at(0)}::timestamptz + (${at(1_000)}::timestamptz - created_at)
        WHERE project_id = ${projectId}`
      const updatedAt = ({ createdAt }: Made) => 1_000 - (Date.parse(createdAt) - Date.parse(at(0)))
      for (const choice of choicesOf(list)) {
        const found = matching(choice)
        const since = found.map(updatedAt).toSorted((one, other) => one - other)[3] ?? assert.fail()
        const expected = found
          .filter((record) => updatedAt(record) >= since)
          .toSorted((one, other) => updatedAt(one) - updatedAt(other) || (one.id < other.id ? -1 : 1))
          .map(({ id }) => id)
        const query = new URLSearchParams({ ...choice, updatedSince: at(since), limit: "4" }).toString()
        assert.deepStrictEqual((yield* walk(query)).flat(), expected, query)
      }
    })

    it.effect(`finds a record by its external id alone, whatever the other filters are: ${name}`, function* () {
      const { ids, projectId, records, server } = yield* open()
      const [table] = lists[name]?.table ?? assert.fail(name)
      const [first = assert.fail()] = records
      yield* server.sql`
        UPDATE ${server.sql(table)} SET external_id = 'one & only' WHERE project_id = ${projectId} AND id = ${first.id}`
      for (const choice of choicesOf(list)) {
        const query = new URLSearchParams({ ...choice, externalId: "one & only" }).toString()
        const isShown = Object.entries(list.filters).every(([name, { usual = "all" }]) => {
          const value = choice[name] ?? usual
          return value === "all" || isEqual(value, first[name])
        })
        assert.deepStrictEqual(yield* ids(query), isShown ? [first.id] : [], query)
      }
      assert.deepStrictEqual(yield* ids("externalId=One%20%26%20only"), [])
    })
  }
})
