/** Bodies up to their limit that are made to be as expensive as possible, by their shape. */
import { batchBody } from "../../src/api/crm/Batches.ts"
import { usualBody } from "../../src/api/Requests.ts"

const values = ["0", '""', '"\\u0000"', '"\\ud800"', "null", "{}", "[]", '{"a":0}', "1.5"]

type Shape = readonly [shape: string, json: string]

const many = 1_000_000

/** Makes the shapes of JSON of at most `maxBytes`. */
const shapesOf = (maxBytes: number) => {
  /** Returns as many items as fit into a body of `maxBytes` beside `others`, or `atMost`. */
  const filled = (atMost: number, item: (index: number) => string, others = 200) => {
    const items: Array<string> = []
    for (let bytes = others; items.length < atMost;) {
      const next = item(items.length)
      bytes += Buffer.byteLength(next) + 1
      if (bytes > maxBytes) break
      items.push(next)
    }
    return items
  }

  /** Names of a length that all differ, with characters of one byte, of two bytes, or that are written as escapes. */
  const name = (length: number, index: number, character = "x") => `"${index.toString(36)}${character.repeat(length)}"`

  const members = (length: number, value: string, atMost = many, character = "x") =>
    `{${filled(atMost, (index) => `${name(length, index, character)}:${value}`).join(",")}}`

  const list = (value: string, atMost = many, others = 200) => `[${filled(atMost, () => value, others).join(",")}]`

  /** Nests a value in objects, as deep as its size allows or `atMost` levels, each below a name of a length. */
  const nested = (length: number, inner: string, atMost = many) => {
    const levels = filled(atMost, (index) => `{${name(length, index)}:}`, inner.length + 200).length
    const opened = Array.from({ length: levels }, (_, index) => `{${name(length, index)}:`)
    return `${opened.join("")}${inner}${"}".repeat(levels)}`
  }

  const shapes: ReadonlyArray<Shape> = [
    ...[0, 60, 70, 500, 16_400, 60_000, 250_000].flatMap((length): ReadonlyArray<Shape> => [
      [`members with names of ${length} characters`, members(length, "0")],
      [`1,000 members with names of ${length} characters`, members(length, '"\\u0000"', 1_000)],
      [`levels with names of ${length} characters`, nested(length, "0")],
      [`30 levels with names of ${length} characters above 1,000 faults`, nested(length, list('"\\u0000"', 1_000), 30)],
      [`a name of ${length} characters above 1,000 faults`, nested(length, list('"\\u0000"', 1_000), 1)]
    ]),
    ["members with names of é", members(120, "0", 900, "é")],
    ["members with names that are all escapes", members(40, "0", 900, "\\u0001")],
    ["members with names that are unsafe", members(3, "0", 900, "\\u0000")],
    ...values.flatMap((value): ReadonlyArray<Shape> => [
      [`a list of ${value}`, list(value)],
      [`1,000 of ${value}`, list(value, 1_000)],
      [`members with ${value}`, members(0, value)],
      [`900 members with ${value}`, members(0, value, 900)],
      [`lists of 20 of ${value}`, list(list(value, 20), 900)],
      [`lists of 1,000 of ${value}`, list(list(value, 1_000))],
      [`lists of 1,001 of ${value}`, list(list(value, 1_001))]
    ]),
    ["objects with different names", `[${filled(many, (index) => `{${name(0, index)}:0}`).join(",")}]`],
    ["equal members", `{${filled(many, () => '"displayName":""').join(",")}}`],
    ["lists in lists", `${"[".repeat(126_000)}${"]".repeat(126_000)}`],
    ["lists in lists above 1,000 numbers", `${"[".repeat(126_000)}${list("0", 1_000)}${"]".repeat(126_000)}`],
    ["a text of 260,000 characters", `"${"x".repeat(260_000)}"`],
    ["a text of 260,000 colons", `"${'\\":'.repeat(80_000)}"`],
    ["a text of 40,000 escapes", `"${"\\u0041".repeat(40_000)}"`],
    ["an email made for backtracking", `"${"a.".repeat(60_000)}@${"a-".repeat(60_000)}"`],
    ["a number of 250,000 digits", "9".repeat(250_000)]
  ]
  return { filled, name, list, nested, shapes }
}

interface HostileBody {
  readonly shape: string
  readonly operation: "createClient" | "patchCampaign" | "batchClients" | "batchDeals"
  readonly body: string
}

const fits = ({ body }: HostileBody) => Buffer.byteLength(body) <= usualBody.bytes

/** Each shape as a whole body, in a member that is not known, in one that is, and in a list that is. */
export const hostileBodies: ReadonlyArray<HostileBody> = shapesOf(usualBody.bytes)
  .shapes.flatMap(([shape, json]): ReadonlyArray<HostileBody> => [
    ...(json.startsWith("{") ? [{ shape, operation: "createClient", body: json } as const] : []),
    { shape: `${shape}, unknown`, operation: "createClient", body: `{"a":${json}}` },
    { shape: `${shape}, known`, operation: "createClient", body: `{"displayName":"","email":${json}}` },
    {
      shape: `${shape}, in a list`,
      operation: "patchCampaign",
      body: `{"operation":"freeze_audience","filter":{"requiredTags":${json}}}`
    }
  ])
  .filter(fits)

/** Members of clients and of deals. Those of the other record are unknown. */
const named = [
  "displayName",
  "firstName",
  "email",
  "phone",
  "marketingConsent",
  "title",
  "stageId",
  "amountMinor",
  "currency"
]

/** Bodies of batches: each shape as a whole body and as its items, and items that are each as expensive as possible. */
export const hostileBatches = (): ReadonlyArray<HostileBody> => {
  const { filled, list, name, nested, shapes } = shapesOf(batchBody.bytes)
  const items: ReadonlyArray<readonly [shape: string, item: (index: number) => string]> = [
    ["one id", () => '{"externalId":"a"}'],
    ["one long id", () => `{"externalId":"${"x".repeat(10_000)}"}`],
    ["different ids", (index) => `{"externalId":"${index}","displayName":""}`],
    ...values.flatMap((value): ReadonlyArray<readonly [string, (index: number) => string]> => [
      [
        `members of ${value}`,
        (index) => `{"externalId":"${index}",${named.map((member) => `"${member}":${value}`).join(",")}}`
      ],
      [`100 tags of ${value}`, (index) => `{"externalId":"${index}","tags":${list(value, 100)}}`]
    ]),
    ...[1, 60, 500, 10_000].flatMap((length): ReadonlyArray<readonly [string, (index: number) => string]> => [
      [
        `unknown names of ${length} characters`,
        (index) =>
          `{"externalId":"${index}",${Array.from({ length: 18 }, (_, at) => `${name(length, at)}:0`).join(",")}}`
      ],
      [
        `texts of ${length} characters`,
        (index) =>
          `{"externalId":"${index}","displayName":"${"\\u0041".repeat(length / 6)}","email":"${"x".repeat(length)}"}`
      ],
      [
        `values below names of ${length} characters`,
        (index) => `{"externalId":"${index}","email":${nested(length, '"\\u0000"', 18)}}`
      ]
    ]),
    [
      "emails made for backtracking",
      (index) => `{"externalId":"${index}","email":"${"a.".repeat(2_500)}@${"a-".repeat(2_500)}"}`
    ]
  ]
  const ofItems = items.flatMap(([shape, item]) =>
    [100, 101, many].map(
      (most) => [`${most} items with ${shape}`, `{"items":[${filled(most, item).join(",")}]}`] as const
    )
  )
  const whole = shapes.flatMap(([shape, json]): ReadonlyArray<Shape> => [
    ...(json.startsWith("{") ? [[shape, json] as const] : []),
    [`${shape}, as items`, `{"items":${json}}`],
    [`${shape}, in an item`, `{"items":[{"externalId":"a","tags":${json}}]}`]
  ])
  return [...ofItems, ...whole]
    .filter(([, body]) => Buffer.byteLength(body) <= batchBody.bytes)
    .flatMap(([shape, body]) =>
      (["batchClients", "batchDeals"] as const).map((operation) => ({ shape, operation, body }))
    )
}
