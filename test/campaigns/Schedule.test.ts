/** Local times as instants, around clock changes in both directions (contract §9). */
import { assert, describe, it } from "@effect/vitest"
import { Option, Result } from "effect"
import * as fc from "fast-check"
import { instantOf } from "../../src/campaigns/Changes.ts"

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
  it("refuses times that no clock shows", () => {
    for (const local of [
      "2026-13-01T10:00",
      "2026-00-10T10:00",
      "2026-01-01T24:00",
      "2026-01-01T10:60",
      "0000-01-01T00:00"
    ]) {
      assert.include(fault(local, "Europe/Berlin"), "calendar", local)
    }
    // A whole day, and an hour that begins at midnight.
    assert.include(fault("2011-12-30T12:00", "Pacific/Apia"), "skip")
    assert.include(fault("2026-09-06T00:59", "America/Santiago"), "skip")
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
        day: fc.integer({ min: 1, max: 31 }),
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
