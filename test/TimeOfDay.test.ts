/**
 * Every use of the time of day in `src`, with its reason. The time of day can be set back, so no duration is measured by it
 * (`platform/MonotonicTime.ts`). `DateTime.nowAsDate` is left out: it is a date to store or to show.
 */
import { assert, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

const source = join(import.meta.dirname, "../src")

/** Reads of the time of day, and parts of the library that measure durations by it. */
const reads =
  /\b(Date\.now|new Date\(\)|DateTime\.now(?!AsDate)\w*|currentTime(Millis|Nanos)\w*|\w*Cache\.make\w*|RcMap\.make|(?<!Pg)Pool\.make|CircuitBreaker\.make|cached(InvalidateWithTTL|WithTTL)|Schedule\.(during|elapsed|fixed|upTo|windowed))\b/g

/** The number of uses in each file, and their reason. */
const reasons: Readonly<Record<string, readonly [uses: number, reason: string]>> = {
  "cli/commands/listen.ts": [1, "printed"],
  "client/Retries.ts": [1, "compared with the date of Retry-After"],
  "client/Webhooks.ts": [1, "compared with the time of a signature"],
  "webhooks/delivery/Deliveries.ts": [1, "stored"],
  "webhooks/delivery/DeliveryMaintenance.ts": [1, "compared with stored times"],
  "webhooks/delivery/DeliveryLoop.ts": [1, "stored in the attempt log, and signed"],
  "webhooks/Replays.ts": [1, "compared with stored times"],
  "webhooks/address/Sender.ts": [1, "compared with the date of Retry-After"],
  "webhooks/TestEvents.ts": [1, "the time of an event, which is signed"],
  "messaging/providers/ChannelLimits.ts": [1, "by the clock whose time of day is monotonic"],
  "messaging/providers/Connector.ts": [1, "compared with the date of Retry-After"],
  "messaging/providers/Connectors/Http.ts": [1, "signed"],
  "work/Retention.ts": [1, "compared with stored times"],
  "platform/MonotonicTime.ts": [4, "the clock whose time of day is monotonic"],
  "platform/Ids.ts": [2, "ids sort by their time of creation"],
  "project/Credential.ts": [1, "by the clock whose time of day is monotonic"],
  "sql/Times.ts": [2, "the time of day is what is checked"],
  "http/auth/ApiKeys.ts": [3, "stored"],
  "http/auth/Credentials.ts": [2, "compared with the stored expiry and last use of a key"],
  "http/pages/Pages.ts": [1, "compared with stored times, with a margin for hosts whose clocks differ"],
  "outbound/Connections.ts": [1, "by the clock whose time of day is monotonic"],
  "outbox/Outbox.ts": [1, "stored"],
  "telemetry/Telemetry.ts": [1, "the start and end of spans"],
  "work/Worker.ts": [1, "compared with the clock of the database, to report the difference"],
  "client/VerifyOnly.ts": [1, "compared with the time of a signature"]
}

it("the time of day is read only where a reason is listed, and measures no duration", () => {
  const uses = readdirSync(source, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .map((file) => [file, readFileSync(join(source, file), "utf8").match(reads)?.length ?? 0] as const)
    .filter(([, count]) => count > 0)
  assert.deepStrictEqual(
    Object.fromEntries(uses),
    Object.fromEntries(Object.entries(reasons).map(([file, [count]]) => [file, count]))
  )
})
