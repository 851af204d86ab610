/** What the fields of a client take, at their limits (contract §7). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { faultsOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { open } from "./Clients.support.ts"

const email = (length: number) =>
  `${"a".repeat(64)}@${"b".repeat(63)}.${"c".repeat(63)}.${"d".repeat(length - 197)}.com`

/** What each field takes, and what it doesn't with the location where that is told. */
const limits: Readonly<
  Record<string, { readonly good: ReadonlyArray<unknown>; readonly bad: ReadonlyArray<readonly [unknown, string?]> }>
> = {
  displayName: {
    good: [
      "a",
      " ",
      "\n",
      "a".repeat(160),
      "😀".repeat(160),
      "e\u0301",
      "👩‍👩‍👧‍👦".repeat(22),
      "\u0001",
      "\u{10ffff}",
      "<b>'\"\\"
    ],
    bad: [[""], ["a".repeat(161)], ["😀".repeat(161)], [null], [1], [["a"]]]
  },
  ...Object.fromEntries(
    ["firstName", "lastName"].map((name) => [
      name,
      {
        good: [null, "a", " a ", "a".repeat(100), "😀".repeat(100)],
        bad: [[""], ["a".repeat(101)], ["😀".repeat(101)], [false], [{}]] as const
      }
    ])
  ),
  email: {
    good: [
      null,
      "a@b.co",
      "first.last+tag@sub.example.com",
      "o'brien@example.com",
      "A@EXAMPLE.COM",
      "1@2-3.de",
      email(254)
    ],
    bad: [
      [""],
      ["a"],
      ["a@"],
      ["@b.co"],
      ["a b@c.de"],
      ["a@b c.de"],
      ["a@@b.co"],
      ["a@b@c.co"],
      ["a@b..co"],
      ["a@.b.co"],
      [".a@b.co"],
      ["a.@b.co"],
      ["a..b@c.co"],
      ["a@-b.co"],
      ["a@b-.co"],
      ["a@b.co."],
      [" a@b.co"],
      ["a@b.co "],
      ["a@b.co\n"],
      ["Ada <a@b.co>"],
      ["a@b.co,c@d.co"],
      ["mailto:a@b.co"],
      [`${"a".repeat(65)}@b.co`],
      [`a@${"b".repeat(64)}.co`],
      [email(255)],
      [1]
    ]
  },
  phone: {
    good: [null, "+4915112345678", "+123456789012345", "+12"],
    bad: [
      [""],
      ["+"],
      ["+1234567890123456"],
      ["+0123456789"],
      ["4915112345678"],
      ["004915112345678"],
      ["+49 151 12345678"],
      ["+49-151"],
      ["+49(0)151"],
      ["+491511234567a"],
      ["++4915112345678"],
      ["+4915112345678\n"],
      [" +4915112345678"],
      ["+４９１５１１２３４５６７８"],
      [4915112345678]
    ]
  },
  tags: {
    good: [
      [],
      ["a"],
      ["a", "A", " a", "ä", "a\u0308"],
      ["😀".repeat(160)],
      Array.from({ length: 100 }, (_, index) => `tag ${index}`),
      ["a,b", '"', "{}", "NULL", "\\"]
    ],
    bad: [
      [null, "tags"],
      ["a", "tags"],
      [{}, "tags"],
      [["a", "a"], "tags"],
      [["a", "b", "c", "b"], "tags"],
      [Array.from({ length: 101 }, (_, index) => `tag ${index}`), "tags"],
      [[""], "tags/0"],
      [["a", "b".repeat(161)], "tags/1"],
      [["a", "b", "😀".repeat(161)], "tags/2"],
      [[null], "tags/0"],
      [["a", 1], "tags/1"],
      [[["a"]], "tags/0"]
    ]
  },
  externalId: {
    good: [null, "a", " ", "a".repeat(160), "😀".repeat(160)],
    bad: [[""], ["a".repeat(161)], ["😀".repeat(161)], [1]]
  }
}

layer(TestServer.layer(), { excludeTestServices: true })("a client", (it) => {
  for (const [name, { bad, good }] of Object.entries(limits)) {
    it.effect(`takes ${name} up to its limits, on create and on patch`, () =>
      Effect.gen(function* () {
        const { create, created, patch, read } = yield* open()
        const id = yield* created()
        for (const value of good) {
          const answer = yield* create({ displayName: "A", [name]: value })
          const made = yield* read(receiptOf(answer, 201).resourceId)
          assert.deepInclude(made, { [name]: value }, JSON.stringify(value))
          receiptOf(yield* patch(id, { [name]: value }), 200)
          assert.deepInclude(yield* read(id), { [name]: value })
        }
      })
    )

    it.effect(`refuses ${name} beyond its limits, on create and on patch`, () =>
      Effect.gen(function* () {
        const { create, created, page, patch, read } = yield* open()
        const id = yield* created()
        const before = yield* read(id)
        for (const [value, at = name] of bad) {
          for (const answer of [
            yield* create({ displayName: "A", [name]: value }),
            yield* patch(id, { [name]: value })
          ]) {
            assert.deepStrictEqual(faultsOf(answer), [`body/${at}`], JSON.stringify(value))
          }
        }
        assert.deepStrictEqual(yield* read(id), before)
        assert.strictEqual((yield* page()).items.length, 1)
      })
    )
  }
})
