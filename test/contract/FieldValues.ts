/** Valid and invalid values of each type of field, at its bounds. */

export interface Field {
  readonly good: ReadonlyArray<unknown>
  /** Values that are refused, each with the location of its fault below the field. */
  readonly bad: ReadonlyArray<readonly [value: unknown, below: string]>
  /** Members that a good value requires in the same body. */
  readonly beside?: Readonly<Record<string, unknown>>
}

const refused = (...values: ReadonlyArray<unknown>): Field["bad"] => values.map((value) => [value, ""])

/** Returns the field of a string of 1 to `longest` Unicode code points. */
export const text = (longest: number): Field => ({
  good: [
    ...["a", "😀"].map((character) => character.repeat(longest)),
    "a",
    " ",
    "\n",
    "\u0001",
    "\u00e9",
    "e\u0301",
    "\u{10ffff}",
    "👩‍👩‍👧‍👦",
    "<b>'\"\\"
  ],
  bad: refused("", "a".repeat(longest + 1), "😀".repeat(longest + 1), "a\u0000", "\ud83d", null, 1, false, ["a"], {})
})

/** Returns the field of a reference to an existing record. */
export const reference = (id: string): Field => ({ good: [id], bad: text(160).bad })

/** Returns the field with null among its good values. */
export const orNull = ({ bad, good, ...field }: Field): Field => ({
  ...field,
  good: [...good, null],
  bad: bad.filter(([value]) => value !== null)
})

export const integer = (least: number, most: number): Field => ({
  good: [least, least + 1, most - 1, most],
  bad: refused(least - 1, most + 1, least + 0.5, -1, 1e300, String(least), "", null, true, [least], {})
})

/** The version of a record that was never changed. */
export const version: Field = { good: [1], bad: integer(1, Number.MAX_SAFE_INTEGER).bad }

/** Returns the field of one of these words. */
export const word = (...good: ReadonlyArray<string>): Field => ({
  good,
  bad: refused("", "other", "constructor", good[0]?.toUpperCase(), `${good[0]} `, null, 1, true, [good[0]], {})
})

export const flag: Field = { good: [true, false], bad: refused(null, "true", 0, [], {}) }

const numbered = (count: number) => Array.from({ length: count }, (_, index) => `item ${index}`)

/** At most 100 strings of 1 to 160 code points. */
export const list: Field = {
  good: [
    [],
    ["a"],
    ["a", "A", " a", "ä", "a\u0308"],
    ["😀".repeat(160)],
    numbered(100),
    ["a,b", '"', "{}", "NULL", "\\"]
  ],
  bad: [
    ...refused(null, "a", 1, {}, numbered(101)),
    [[""], "/0"],
    [["a", "b".repeat(161)], "/1"],
    [["a", "b", "😀".repeat(161)], "/2"],
    [["a", "\u0000"], "/1"],
    [[null], "/0"],
    [["a", 1], "/1"],
    [[["a"]], "/0"]
  ]
}

/** As `list`, without duplicates. */
export const set: Field = { ...list, bad: [...list.bad, ...refused(["a", "a"], ["a", "b", "c", "b"])] }

const address = (length: number) =>
  `${"a".repeat(64)}@${"b".repeat(63)}.${"c".repeat(63)}.${"d".repeat(length - 197)}.com`

export const email: Field = {
  good: ["a@b.co", "first.last+tag@sub.example.com", "o'brien@example.com", "A@EXAMPLE.COM", "1@2-3.de", address(254)],
  bad: refused(
    ..."|a|a@|@b.co|a b@c.de|a@b c.de|a@@b.co|a@b@c.co|a@b..co|a@.b.co|.a@b.co|a.@b.co|a..b@c.co|a@-b.co|a@b-.co".split(
      "|"
    ),
    ..."a@b.co.| a@b.co|a@b.co |a@b.co\n|Ada <a@b.co>|a@b.co,c@d.co|mailto:a@b.co".split("|"),
    `${"a".repeat(65)}@b.co`,
    `a@${"b".repeat(64)}.co`,
    address(255),
    1,
    null
  )
}

export const phone: Field = {
  good: ["+4915112345678", "+123456789012345", "+12"],
  bad: refused(
    ..."|+|+1234567890123456|+0123456789|4915112345678|004915112345678|+49 151 12345678|+49-151|+49(0)151".split("|"),
    ..."+491511234567a|++4915112345678|+4915112345678\n| +4915112345678|+４９１５１１２３４５６７８".split("|"),
    4915112345678,
    null
  )
}

/** A day of the calendar. */
export const date: Field = {
  good: "2024-02-29 2000-02-29 2026-12-31 1999-01-01 0001-01-01 0099-12-31 9999-12-31".split(" "),
  bad: refused(
    ..."|2026-02-30|2026-02-29|1900-02-29|2026-13-01|2026-00-01|2026-01-00|2026-04-31|0000-01-01|2026-2-3".split("|"),
    ..."26-02-03|02026-02-03|2026/02/03|20260203|2026-02-03T00:00:00.000Z|2026-02-03T10:00|2026-02-03Z".split("|"),
    ..." 2026-02-03|2026-02-03\n|+2026-02-03|-001-02-03|２０２６-02-03|infinity|today".split("|"),
    20260203,
    null
  )
}

/** A date and a time of day without a zone. */
export const localTime: Field = {
  good: ["2099-01-01T10:00"],
  bad: refused(
    ..."|2026|2026-01-01|2026-01-01 10:00|2026-01-01T10:00:00|2026-01-01T10:00Z|2026-01-01T10:00+01:00".split("|"),
    ..."26-01-01T10:00|2026-1-1T10:00| 2026-01-01T10:00|2026-01-01T10:00\n|２０２６-01-01T10:00".split("|"),
    1,
    {},
    [],
    null
  )
}

/** The currency of an amount; a deal has both or neither. */
export const currency: Field = {
  good: ["EUR", "USD", "JPY", "XCG", "ZWG"],
  bad: refused(..."|eur|Eur|EURO|EU| EUR|EUR\n|DEM|BGN|ABC|€".split("|"), 978, ["EUR"], null),
  beside: { amountMinor: 1 }
}

/** Returns the field of an integer in a query, from 1: decimal digits without a sign or leading zeros. */
export const digits = (...good: ReadonlyArray<string>): Field => ({
  good,
  bad: refused(..."|0|-1|01|1e1|1.0|1.5|+1|1 | 1|0x1|null|x|five|NaN|9007199254740993".split("|"))
})

/** Returns the field of a string in a query. */
export const queryText = (longest: number): Field => ({
  good: ["a", " ", "\n", "e\u0301", "a".repeat(longest), "😀".repeat(longest)],
  bad: refused("", "a".repeat(longest + 1), "😀".repeat(longest + 1), "a\u0000")
})

/** Returns the field in a query: its values that are strings. */
export const inQuery = ({ bad, good }: Field): Field => ({
  good: good.filter((value) => typeof value === "string"),
  bad: bad.filter(([value]) => typeof value === "string")
})

/** An instant of RFC 3339 at any offset. */
export const instant: Field = {
  good: [
    "2026-11-20T10:00:00Z",
    "2026-11-20t10:00:00.123456789z",
    "0001-01-02T00:00:00+23:59",
    "9999-12-31T23:59:59.999Z"
  ],
  bad: refused(
    ..."|2026-11-20|2026-11-20T10:00:00|2026-11-20 10:00:00Z|2026-02-30T10:00:00Z|2026-11-20T24:00:00Z|0000-01-01T00:00:00Z".split(
      "|"
    ),
    ..."2026-11-20T10:00:00+0100|2026-11-20T10:00Z|1763632800|now|infinity| 2026-11-20T10:00:00Z".split("|"),
    ..."2026-11-20T10:00:00+24:00|0001-01-01T00:00:00+01:00|9999-12-31T23:59:59-01:00|2023-02-29T00:00:00Z".split("|")
  )
}

/** Returns the field of one of these words in a query. */
export const queryWord = (...good: ReadonlyArray<string>): Field => ({
  good,
  bad: refused("", "other", "constructor", good[0]?.toUpperCase(), `${good[0]} `)
})
