/** Every operation: the faults of a path and a query, and their locations (contract §1, §2). */
import { assert, layer } from "../support/Vitest.ts"
import { assertFault, faultsOf, problemOf } from "../support/ContractAnswers.ts"
import { queryOf } from "./Requests.ts"
import type { Sample } from "./Sample.ts"
import { World } from "./Samples.ts"
import { hasParams, walking } from "./Walk.support.ts"

/** Returns the path parameters that are UUIDs. */
const uuidsOf = ({ params = {}, references = [] }: Sample) =>
  Object.entries(params).filter(([name]) => references.some(({ at, form }) => at[1] === name && form === "uuid"))

layer(World.layer, { excludeTestServices: true })("every operation", (it) => {
  const walk = walking(it)
  const walkParams = walking(it, hasParams)
  const walkUuids = walking(it, (sample) => uuidsOf(sample).length > 0)
  const walkQueries = walking(it, ({ query }) => query !== undefined)

  // Paths

  walkParams("refuses U+0000 in each path parameter", function* (sample, ask) {
    for (const name of Object.keys(sample.params ?? {})) {
      for (const value of ["%00", "a%00b"]) {
        assert.deepStrictEqual(faultsOf(yield* ask({ params: { [name]: value } })), [`path/${name}`], value)
      }
    }
  })

  walkParams("refuses an id of more than 160 characters, and takes the longest", function* (sample, ask) {
    for (const name of Object.keys(sample.params ?? {})) {
      const reference = sample.references?.find(({ at }) => at[1] === name)
      // An upsert creates the record that is missing.
      const { form, status = 404 } = reference ?? { status: 201 }
      const missing = form === undefined ? status : 400
      for (const character of ["a", "ä", "😀"]) {
        const id = (length: number) => ({ params: { [name]: encodeURIComponent(character.repeat(length)) } })
        assert.deepStrictEqual(faultsOf(yield* ask(id(161))), [`path/${name}`])
        assert.strictEqual((yield* ask(id(160))).status, missing)
      }
    }
  })

  walkParams("takes any characters as an id, an encoded slash or dots among them", function* (sample, ask) {
    for (const { at, code, form, status = 404 } of sample.references ?? []) {
      const [slot, name] = at
      if (slot !== "path") continue
      for (const id of [
        "a%2Fb%2f",
        "%2F",
        "%2e%2e",
        "100%25",
        ":id",
        "a%3Fb%23c",
        "%F0%9F%98%80",
        "%01",
        "__proto__"
      ]) {
        const answer = yield* ask({ params: { [name]: id } })
        if (form === undefined) problemOf(answer, status, code)
        else assert.deepStrictEqual(faultsOf(answer), [`path/${name}`], id)
      }
    }
  })

  walkUuids("accepts a UUID in either letter case, and nothing else", function* (sample, ask) {
    for (const [name, id] of uuidsOf(sample)) {
      for (const other of [id.toUpperCase(), id.replace(/[a-f]/, (digit) => digit.toUpperCase())]) {
        assert.notStrictEqual(other, id)
        assert.strictEqual((yield* ask({ params: { [name]: other } })).status, sample.status, other)
      }
      for (const none of [
        id.replaceAll("-", ""),
        `%7B${id}%7D`,
        `urn:uuid:${id}`,
        `${id}%20`,
        `${id}%0A`,
        `${id}0`,
        id.slice(1),
        `g${id.slice(1)}`,
        id.replace("-", "%E2%80%90"),
        "xxx_nothing"
      ]) {
        assert.deepStrictEqual(faultsOf(yield* ask({ params: { [name]: none } })), [`path/${name}`], none)
      }
    }
  })

  // Queries

  walk("refuses unknown query parameters", function* (sample, ask) {
    const good = new URLSearchParams(queryOf(sample).map(([...pair]) => pair)).toString()
    const and = good === "" ? "" : `${good}&`
    for (const name of ["surprise", "Limit", "__proto__", "constructor", "toString", "limit[]"]) {
      const query = `${and}${encodeURIComponent(name)}=1`
      assert.deepStrictEqual(faultsOf(yield* ask({ query })), [`query/${name}`], query)
    }
    assert.deepStrictEqual(faultsOf(yield* ask({ query: `${and}surprise` })), ["query/surprise"])
    assertFault(yield* ask({ query: `${and}surprise=1&surprise=2` }), "query/surprise")
    assert.deepStrictEqual(faultsOf(yield* ask({ query: `${and}one=1&two=2` })), ["query/one", "query/two"])
  })

  walkQueries("refuses repeated query parameters, and bad characters in each", function* (sample, ask) {
    for (const [name, value] of queryOf(sample)) {
      for (const query of [
        `${name}=${value}&${name}=${value}`,
        `${name}=${value}&%${name.charCodeAt(0).toString(16)}${name.slice(1)}=${value}`
      ]) {
        assert.deepStrictEqual(faultsOf(yield* ask({ query })), [`query/${name}`], query)
      }
    }
    for (const name of Object.keys(sample.query ?? {})) {
      for (const value of ["%00", "a%00"]) {
        assert.deepStrictEqual(faultsOf(yield* ask({ query: `${name}=${value}` })), [`query/${name}`], value)
      }
    }
    const all = Object.keys(sample.query ?? {})
    const query = all.map((name) => `${name}=%00`).join("&")
    assert.deepStrictEqual(faultsOf(yield* ask({ query })), all.map((name) => `query/${name}`).toSorted())
  })

  walk("refuses bad characters in the names of query parameters", function* (_, ask) {
    for (const name of ["%00", "a%00b"]) {
      for (const query of [name, `${name}=1`]) {
        assert.isTrue(
          faultsOf(yield* ask({ query })).every((location) => location.startsWith("query")),
          query
        )
      }
    }
  })

  walk("reports every fault of path, query, header and body in one answer", function* (sample, ask) {
    const params = Object.keys(sample.params ?? {})
    const query = Object.keys(sample.query ?? {})
    const required = (sample.required ?? []).filter((name) => name !== sample.discriminator)
    const variant = Object.entries(sample.body ?? {}).filter(([name]) => name === sample.discriminator)
    const answer = yield* ask({
      params: Object.fromEntries(params.map((name) => [name, "x".repeat(161)])),
      query: [...query.map((name) => `${name}=`), "surprise=1"].join("&"),
      ...(sample.key === undefined ? {} : { key: undefined }),
      ...(sample.body === undefined ? { body: "{}" } : { json: { ...Object.fromEntries(variant), surprise: 1 } })
    })
    assert.deepStrictEqual(
      faultsOf(answer),
      [
        ...params.map((name) => `path/${name}`),
        ...query.map((name) => `query/${name}`),
        "query/surprise",
        ...(sample.key === undefined ? [] : ["header/idempotency-key"]),
        ...(sample.body === undefined ? ["body"] : ["body/surprise", ...required.map((name) => `body/${name}`)])
      ].toSorted()
    )
  })
})
