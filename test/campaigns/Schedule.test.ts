/** Local times as instants, around clock changes in both directions (contract §9). */
import { assert, describe, it } from "@effect/vitest"
import { Option, Result } from "effect"
import * as fc from "fast-check"
import { instantOf } from "../../src/campaigns/Schedule.ts"

const longAgo = new Date(0)

const instant = (local: string, zone: string, now = longAgo) =>
  Option.getOrNull(Option.map(Result.getSuccess(instantOf(local, zone, now)), (at) => at.toISOString()))

const fault = (local: string, zone: string, now = longAgo) =>
  Option.getOrThrow(Result.getFailure(instantOf(local, zone, now)))

/** Returns the local time of a zone at an instant, by the runtime's calendar. */
const shown = (format: Intl.DateTimeFormat, at: Date) => {
  const parts = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, value]))
  return `${parts["year"]}-${parts["month"]}-${parts["day"]}T${parts["hour"]}:${parts["minute"]}`
}

/** Returns the first instant with a local time, found by trying each quarter of an hour around it. */
const firstShown = (local: string, timeZone: string) => {
  const format = new Intl.DateTimeFormat("en-CA", {
    timeZone,
    hourCycle: "h23",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit"
  })
  const asUtc = Date.parse(`${local}:00Z`)
  for (let quarters = -4 * 15; quarters <= 4 * 15; quarters++) {
    const at = new Date(asUtc + quarters * 15 * 60_000)
    if (shown(format, at) === local) return at.toISOString()
  }
  return null
}

const two = (value: number) => String(value).padStart(2, "0")

describe("instantOf", () => {
  it("refuses local times that a clock change skips, to the minute", () => {
    for (const [zone, before, skipped, after] of [
      ["Europe/Berlin", "2027-03-28T01:59", ["2027-03-28T02:00", "2027-03-28T02:59"], "2027-03-28T03:00"],
      ["America/New_York", "2027-03-14T01:59", ["2027-03-14T02:00", "2027-03-14T02:59"], "2027-03-14T03:00"],
      ["Australia/Lord_Howe", "2026-10-04T01:59", ["2026-10-04T02:00", "2026-10-04T02:29"], "2026-10-04T02:30"],
      // A whole day, and an hour that begins at midnight.
      ["Pacific/Apia", "2011-12-29T23:59", ["2011-12-30T00:00", "2011-12-30T12:00"], "2011-12-31T00:00"],
      ["America/Santiago", "2026-09-05T23:59", ["2026-09-06T00:00", "2026-09-06T00:59"], "2026-09-06T01:00"]
    ] as const) {
      assert.isNotNull(instant(before, zone), zone)
      assert.isNotNull(instant(after, zone), zone)
      for (const local of skipped) assert.include(fault(local, zone), "skip", `${zone} ${local}`)
      assert.strictEqual(Date.parse(instant(after, zone) ?? "") - Date.parse(instant(before, zone) ?? ""), 60_000, zone)
    }
  })

  it("refuses dates that do not exist", () => {
    for (const local of [
      "2026-02-29T10:00",
      "2026-02-30T10:00",
      "2026-04-31T10:00",
      "2026-13-01T10:00",
      "2026-00-10T10:00",
      "2026-01-00T10:00",
      "2026-01-32T10:00",
      "2026-01-01T24:00",
      "2026-01-01T10:60",
      "2026-01-01T99:99",
      "0000-01-01T00:00",
      "2100-02-29T10:00"
    ]) {
      assert.include(fault(local, "Europe/Berlin"), "calendar", local)
    }
  })

  it("treats a time as past once its minute has begun", () => {
    const at = (iso: string) => new Date(iso)
    assert.include(fault("2026-07-15T10:00", "Europe/Berlin", at("2026-07-15T08:00:00.001Z")), "past")
    assert.include(fault("2026-07-15T10:00", "Europe/Berlin", at("2026-07-15T08:00:59.999Z")), "past")
    assert.isNotNull(instant("2026-07-15T10:00", "Europe/Berlin", at("2026-07-15T08:00:00.000Z")))
    assert.isNotNull(instant("2026-07-15T10:01", "Europe/Berlin", at("2026-07-15T08:00:59.999Z")))
    // The earlier of two instants counts, although the later one is in the future.
    assert.include(fault("2026-10-25T02:30", "Europe/Berlin", at("2026-10-25T00:45:00Z")), "past")
    assert.include(fault("0001-01-01T00:00", "Europe/Berlin"), "past")
    assert.include(fault("0099-12-31T00:00", "Asia/Tokyo"), "past")
  })

  it("accepts years up to 9999, and the next year in UTC for zones behind it", () => {
    assert.strictEqual(instant("9999-12-31T23:59", "Asia/Tokyo"), "9999-12-31T14:59:00.000Z")
    assert.strictEqual(instant("9999-12-31T23:59", "America/New_York"), "+010000-01-01T04:59:00.000Z")
  })

  it("finds the first instant of a local time, or none", () => {
    const zones = [
      "UTC",
      "Europe/Berlin",
      "America/New_York",
      "Australia/Lord_Howe",
      "Pacific/Chatham",
      "America/Santiago",
      "Africa/Casablanca",
      "Asia/Kathmandu",
      "America/St_Johns",
      "Asia/Gaza"
    ]
    // Hours near clock changes, and any hour.
    const local = fc
      .record({
        year: fc.integer({ min: 2026, max: 2037 }),
        month: fc.integer({ min: 1, max: 12 }),
        day: fc.integer({ min: 1, max: 28 }),
        hour: fc.oneof(fc.integer({ min: 0, max: 4 }), fc.integer({ min: 0, max: 23 })),
        minute: fc.constantFrom(0, 1, 15, 29, 30, 45, 59)
      })
      .map(({ day, hour, minute, month, year }) => `${year}-${two(month)}-${two(day)}T${two(hour)}:${two(minute)}`)
    fc.assert(
      fc.property(fc.constantFrom(...zones), local, (zone, local) => {
        assert.strictEqual(instant(local, zone), firstShown(local, zone), `${zone} ${local}`)
      }),
      { numRuns: 500 }
    )
    // Every half hour of days with clock changes.
    for (const zone of zones) {
      for (const day of [
        "2026-10-25",
        "2026-11-01",
        "2026-10-04",
        "2026-04-05",
        "2026-03-29",
        "2026-03-08",
        "2026-09-06"
      ]) {
        for (let half = 0; half < 48; half++) {
          const local = `${day}T${two(Math.floor(half / 2))}:${half % 2 === 0 ? "00" : "30"}`
          assert.strictEqual(instant(local, zone), firstShown(local, zone), `${zone} ${local}`)
        }
      }
    }
  })
})
