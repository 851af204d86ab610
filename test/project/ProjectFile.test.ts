/** The shape of the project file: the accepted values, and the message of each fault. */
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { demoText } from "../support/Projects.ts"
import { jsonSchema, parseProjectFile } from "../../src/project/ProjectFile.ts"

const project = { id: "p", name: "P" }

const faults = (file: unknown) => {
  const parsed = parseProjectFile(typeof file === "string" ? file : JSON.stringify(file))
  return Result.isFailure(parsed) ? parsed.failure : []
}

/** The message about a choice of words. */
const oneOf = (words: string) =>
  `must be ${words
    .split(" ")
    .map((word) => `"${word}"`)
    .join(" or ")}`

describe("a project file that is not JSON", () => {
  it.each([
    ["", "line 1, column 1"],
    ["{", "line 1, column 2"],
    ['{"a":1,}', "line 1, column 8"],
    ["[1 2]", "line 1, column 4"],
    ['{"a":]', "line 1, column 6"],
    ['["\\x"]', "line 1, column 4"],
    ['["abc', "line 1, column 6"],
    ['["a\nb"]', "line 1, column 4"],
    ['{\r\n\t"a":\n  nul}', "line 3, column 6"],
    ["{} {}", "line 1, column 4"],
    ["\ufeff{]", "line 1, column 2"]
  ])("%j is refused at %s", (text, place) => {
    assert.deepStrictEqual(faults(text), [`invalid JSON at ${place}`])
  })

  it("is not quoted in the error", () => {
    assert.notInclude(faults('{"channels": [{"config": {"token": s3cret}}]}').join(), "s3cret")
  })
})

describe("faults in the shape of a project file", () => {
  it("are reported all at once, unknown members included", () => {
    const file = {
      project: {
        id: "",
        name: "",
        timeZone: "+02:00",
        contactCapacity: -1,
        modules: ["crm", "crm"],
        rateLimits: { read: { limit: 0 }, other: 1 },
        "a\nb": 1
      },
      members: [{ name: "N", email: "nope" }, {}],
      pipelines: [{ id: "p", name: "P", stages: [] }],
      channels: [{ id: "c", providerType: "http", displayName: "C", config: { url: "ftp://x", token: "t" } }],
      clients: [
        {
          id: "c",
          displayName: "x".repeat(161),
          firstName: "",
          email: "nope",
          phone: "123",
          tags: ["a", "a"],
          externalId: "",
          createdAt: "2026-02-30T00:00:00Z",
          loyalty: { balance: -1 }
        }
      ],
      deals: [{ id: "d", title: "D", amountMinor: 0.5, currency: "eur", expectedCloseDate: "2026-13-01" }],
      tickets: [{ id: "t", subject: "T", status: "open", rating: { score: 6, by: "customer" } }],
      conversations: [{ id: "1", channelId: "c", address: "a" }],
      installations: [
        {
          id: "i",
          name: "I",
          importProfile: { version: 0, mappings: { thing: {}, contact: { "": "email", a: "name" } }, more: 1 },
          stagedRecords: [
            { entityType: "person", externalId: "", fields: { "": 1, ["x".repeat(101)]: 1 } },
            { entityType: "note", externalId: "1", fields: {}, version: 1 },
            { fields: [] }
          ]
        }
      ],
      extra: []
    }
    assert.deepStrictEqual(faults(file), [
      "extra: is not known here",
      "project/a\\u000ab: is not known here",
      "project/id: must be a string of 1 to 160 visible ASCII characters",
      "project/name: must be a string of 1 to 160 characters, one of them visible",
      "project/timeZone: must be an IANA time zone, such as Europe/Berlin",
      "project/contactCapacity: must be an integer from 0 to 2147483647, or null",
      "project/modules: must be a list without repeats",
      "project/rateLimits/other: is not known here",
      "project/rateLimits/read/limit: must be an integer from 1 to 2147483647",
      "project/rateLimits/read/windowSeconds: is required",
      "members/0/id: is required",
      "members/0/email: must be a mail address of at most 254 characters, or null",
      "members/1/id: is required",
      "members/1/name: is required",
      "pipelines/0/stages: must be at least one stage",
      "channels/0/config/token: is not known here",
      "channels/0/config/url: must be an http or https URL without credentials",
      "channels/0/config/signingSecret: is required",
      "clients/0/displayName: must be a string of 1 to 160 characters",
      "clients/0/firstName: must be a string of 1 to 100 characters, or null",
      "clients/0/email: must be a mail address of at most 254 characters, or null",
      "clients/0/phone: must be a phone number in E.164 form, such as +4915112345678, or null",
      "clients/0/tags: must be tags without repeats",
      "clients/0/externalId: must be a string of 1 to 160 characters, or null",
      "clients/0/createdAt: must be an instant of RFC 3339, such as 2026-11-20T10:00:00Z",
      "clients/0/loyalty/balance: must be an integer from 0 to 2147483647",
      "deals/0/amountMinor: must be an integer from 0 to 9007199254740991, or null",
      "deals/0/currency: must be a current currency code of ISO 4217, such as EUR, or null",
      "deals/0/expectedCloseDate: must be a date that exists, written YYYY-MM-DD, or null",
      "tickets/0/rating/score: must be an integer from 1 to 5",
      "conversations/0/id: must be a UUID",
      "installations/0/importProfile/more: is not known here",
      "installations/0/importProfile/version: must be an integer from 1 to 2147483647",
      "installations/0/importProfile/mappings/thing: is not known here",
      "installations/0/importProfile/mappings/contact/: is not known here",
      `installations/0/importProfile/mappings/contact/a: ${oneOf("displayName firstName lastName email phone tags restricted")}`,
      `installations/0/stagedRecords/0/entityType: ${oneOf("contact organization lead deal task activity note")}`,
      "installations/0/stagedRecords/0/externalId: must be a string of 1 to 160 characters",
      "installations/0/stagedRecords/0/fields/: is not known here",
      `installations/0/stagedRecords/0/fields/${"x".repeat(101)}: is not known here`,
      "installations/0/stagedRecords/1/version: is not known here",
      "installations/0/stagedRecords/2/entityType: is required",
      "installations/0/stagedRecords/2/externalId: is required",
      "installations/0/stagedRecords/2/fields: must be an object"
    ])
  })

  it("refuse every member in a sandbox's config", () => {
    const config = (config: unknown) =>
      faults({ project, channels: [{ id: "c", providerType: "sandbox", displayName: "C", config }] })
    assert.deepStrictEqual(config({}), [])
    assert.deepStrictEqual(config({ token: "t", url: "u" }), [
      "channels/0/config/token: is not known here",
      "channels/0/config/url: is not known here"
    ])
    for (const wrong of [null, 5, "text", true, [], ["token"]]) {
      assert.deepStrictEqual(config(wrong), ["channels/0/config: must be an object"])
    }
  })

  it("have no path when they concern the whole file", () => {
    assert.match(faults([]).join("\n"), /^the file must be .*object$/)
    assert.deepStrictEqual(faults({}), ["project: is required"])
  })

  it("include text that the database can't store, in values and in names, and numbers that JSON can't write", () => {
    const file = {
      project: { id: "p", name: "a\u0000" },
      clients: [{ id: "\ud800", displayName: "😀 is a pair" }],
      installations: [
        {
          id: "i",
          name: "I",
          stagedRecords: [{ entityType: "note", externalId: "1", fields: { "\udc00": ["\u0000"], large: "1e400" } }]
        }
      ]
    }
    assert.deepStrictEqual(faults(JSON.stringify(file).replace('"1e400"', "1e400")), [
      "clients/0/id: must be a string of 1 to 160 visible ASCII characters",
      "project/name: must not contain U+0000 or an unpaired surrogate",
      "clients/0/id: must not contain U+0000 or an unpaired surrogate",
      "installations/0/stagedRecords/0/fields/\\udc00: must not contain U+0000 or an unpaired surrogate in its name",
      "installations/0/stagedRecords/0/fields/\\udc00/0: must not contain U+0000 or an unpaired surrogate",
      "installations/0/stagedRecords/0/fields/large: must be a smaller number"
    ])
  })

  it("include names that show nothing, each at its place, and no byte order mark", () => {
    const blank = [" ", "\u00a0\t", "\u200b\u2060", "\u2800", "\u3164\u00ad", "\u202e"]
    const file = {
      project: { id: "p", name: "\u200b" },
      organizations: blank.map((name, n) => ({ id: `o${n}`, name })),
      channels: [{ id: "c", providerType: "sandbox", displayName: "\ufeff" }],
      pipelines: [{ id: "p", name: "Sales", stages: [{ id: "s", name: " " }] }]
    }
    const message = "must be a string of 1 to 160 characters, one of them visible"
    assert.deepStrictEqual(faults(JSON.stringify(file)), [
      `project/name: ${message}`,
      ...blank.map((_, n) => `organizations/${n}/name: ${message}`),
      `pipelines/0/stages/0/name: ${message}`,
      `channels/0/displayName: ${message}`
    ])
    const marked = (text: string) => faults(`\ufeff${text}`)
    assert.deepStrictEqual(marked(JSON.stringify({ project: { id: "p", name: "\u200d👩" } })), [])
  })

  it("include nesting that is too deep", () => {
    const deep = "[".repeat(100_000) + "]".repeat(100_000)
    const record = `{"entityType": "note", "externalId": "1", "fields": {"a": ${deep}}}`
    const file = `{"project": {"id": "p", "name": "P"}, "installations": [{"id": "i", "name": "I", "stagedRecords": [${record}]}]}`
    assert.match(faults(file).join("\n"), /^installations\/0\/[^\n]*: must not be nested more than 64 deep$/)
  })
})

describe("times", () => {
  const createdAt = (text: string) => {
    const parsed = parseProjectFile(
      JSON.stringify({ project, clients: [{ id: "c", displayName: "C", createdAt: text }] })
    )
    return Result.isSuccess(parsed) ? parsed.success.clients?.[0]?.createdAt : undefined
  }

  it.each([
    ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z"],
    ["2026-01-01t00:00:00.5z", "2026-01-01T00:00:00.500Z"],
    ["2026-01-01T00:00:00.123999+02:00", "2025-12-31T22:00:00.123Z"],
    ["2024-02-29T23:30:00-00:30", "2024-03-01T00:00:00.000Z"],
    ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"]
  ])("%s is %s", (text, instant) => assert.strictEqual(createdAt(text), instant))

  it.each(["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+3"])("%s is a zone", (timeZone) =>
    assert.deepStrictEqual(faults({ project: { ...project, timeZone } }), [])
  )

  it.each(["", "Mars/Olympus", "+02:00", "GMT+2"])("%j is no zone", (timeZone) =>
    assert.strictEqual(faults({ project: { ...project, timeZone } }).length, 1)
  )
})

describe("the schema of the project file", () => {
  it("accepts the demo", () => assert.deepStrictEqual(faults(demoText), []))

  it("is a strict JSON Schema with defaults", () => {
    const text = JSON.stringify(jsonSchema)
    assert.strictEqual(jsonSchema["$schema"], "https://json-schema.org/draft/2020-12/schema")
    assert.deepStrictEqual(jsonSchema["required"], ["project"])
    assert.strictEqual(jsonSchema["additionalProperties"], false)
    assert.include(text, '"default":["developer_api"]')
    const defined = Object.keys(Object(jsonSchema["$defs"])).map((name) => `#/$defs/${name}`)
    for (const [, to = ""] of text.matchAll(/"\$ref":"([^"]*)"/g)) assert.include(defined, to)
  })
})
