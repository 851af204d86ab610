/** Background fibers look for work several times a second: a look that finds nothing is not worth a trace. */
import { assert } from "@effect/vitest"
import { it } from "vitest"
import { inGoodOrder, startService } from "../support/Process.ts"
import { attributesOf, startCollector } from "./Collector.support.ts"
import { database, serviceEnv, session } from "./Projects.support.ts"
import { eventually } from "../support/Waiting.ts"

it("an idle worker exports no spans", async () => {
  const [collector, databaseUrl] = await Promise.all([startCollector(), database()])
  const query = await session(databaseUrl)
  const commits = async () => {
    const [row] = await query("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
    return Number(row?.["xact_commit"])
  }
  const worker = await startService({
    env: { ...serviceEnv(databaseUrl), OTEL_EXPORTER_OTLP_ENDPOINT: collector.url },
    args: ["--role", "worker"]
  })
  const before = await commits()
  // Each of its fibers has looked by then, most of them often.
  await eventually(async () => assert.isAbove(await commits(), before + 60))
  assert.deepStrictEqual(await worker.stop(), inGoodOrder)
  // Its start is exported, which shows that the export works.
  assert.include(
    collector.spans().map(({ name }) => name),
    "migrate"
  )
  const roots = collector.spans().filter(({ parentSpanId }) => parentSpanId === undefined)
  assert.deepStrictEqual(
    roots.flatMap(({ attributes }) => attributesOf(attributes)["db.query.text"] ?? []),
    []
  )
})
