/** `bench campaigns`: how much of its pace a campaign reaches, over a provider that answers after 5 ms. */
import { Console, Effect } from "effect"
import { Command } from "effect/cli"
import { randomBytes } from "node:crypto"
import { createServer } from "node:http"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { table } from "../../src/cli/Output.ts"
import { cpuMillis } from "./Cpu.ts"
import { until } from "./deliveries/Endpoints.ts"
import { fixed } from "./Figures.ts"
import { keepOff, onOneCore } from "./Cores.ts"
import { count, progress } from "./Options.ts"
import { connect, database, openProject, service, start } from "./Stage.ts"

export interface Options {
  readonly seconds: number
}

export const usual: Options = { seconds: 20 }

/** Sends a minute: as many as the contract permits, and a tenth of it. */
const paces = [6_000, 60_000]
const answersAfter = 5
/** In seconds; the permits of the channel grow at first. */
const warmUp = 5

/** Starts a provider. Returns its URL and the times of its calls. */
const provider = Effect.gen(function* () {
  const times: Array<number> = []
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    const id = times.push(performance.now())
    request.resume()
    response.setHeader("content-type", "application/json")
    setTimeout(() => response.end(`{"providerMessageId":"p-${id}"}`), answersAfter)
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
    () => Effect.sync(() => server.close().closeAllConnections())
  )
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return { url: `http://127.0.0.1:${port}/`, times }
})

/** Creates a project with a campaign to `recipients` clients, which is running. */
const campaign = Effect.fnUntraced(function* (
  sql: Effect.Success<ReturnType<typeof connect>>,
  pace: number,
  recipients: number,
  url: string
) {
  const id = ProjectId.make(`prj_${pace}`)
  const signingSecret = `whsec_${randomBytes(32).toString("base64")}`
  yield* openProject(sql, {
    project: { id, name: id },
    channels: [{ id: "http", providerType: "http", displayName: "http", config: { url, signingSecret } }],
    templates: [{ id: "tpl", version: 1, name: "Template", body: "Hello {{displayName}}" }]
  })
  yield* sql`
    WITH client AS (
      INSERT INTO clients (project_id, id, display_name, status, tags, marketing_consent, version, created_at, updated_at)
      SELECT ${id}::text, 'cli_' || lpad(n::text, 8, '0'), 'Client ' || n, 'active', '{}', true, 1, now(), now()
      FROM generate_series(1, ${recipients}::int) n RETURNING id
    )
    INSERT INTO client_addresses (project_id, client_id, position, channel_id, address)
    SELECT ${id}::text, id, 0, 'http', id FROM client`
  yield* sql`
    INSERT INTO audiences (project_id, id, filter, candidate_count, eligible_count, merged, filter_mismatch,
      consent_not_granted, suppressed, channel_unavailable, duplicate, created_at)
    VALUES (${id}, 'aud', '{}', ${recipients}, ${recipients}, 0, 0, 0, 0, 0, 0, now())`
  yield* sql`
    INSERT INTO campaign_recipients (project_id, audience_id, position, client_id)
    SELECT ${id}, 'aud', row_number() OVER (ORDER BY id) - 1, id FROM clients WHERE project_id = ${id}`
  yield* sql`ANALYZE`
  yield* sql`
    INSERT INTO campaigns (project_id, id, name, status, primary_template_id, primary_template_version,
      primary_channel_id, audience_id, scheduled_for, sends_per_minute, created_at, updated_at)
    VALUES (${id}, 'cmp', 'Campaign', 'running', 'tpl', 1, 'http', 'aud', now(), ${pace}, now(), now())`
})

export const measure = Effect.fnUntraced(function* ({ seconds }: Options) {
  yield* progress("starting PostgreSQL and the service")
  keepOff()
  const url = yield* database({})
  const sql = yield* connect(url)
  const { times, url: providerUrl } = yield* provider
  const found: Array<ReadonlyArray<string>> = []
  let worker: Effect.Success<ReturnType<typeof start>> | undefined
  for (const pace of paces) {
    times.length = 0
    yield* campaign(sql, pace, Math.ceil((pace / 60) * (warmUp + seconds + 2)), providerUrl)
    worker ??= yield* start(onOneCore(service("ours", { role: "worker" })), url)
    yield* until(
      "no send",
      Effect.sync(() => times.length),
      (sent) => sent > 0
    )
    yield* Effect.sleep(`${warmUp} seconds`)
    const [before, cpu, at] = [times.length, cpuMillis(worker.pid), performance.now()]
    yield* Effect.sleep(`${seconds} seconds`)
    const sent = times.length - before
    const perMinute = (sent / (performance.now() - at)) * 60_000
    const micros = ((cpuMillis(worker.pid) - cpu) / sent) * 1_000
    yield* progress(`campaigns: ${fixed(perMinute, 0)} of ${pace} sends a minute`)
    found.push([String(pace), fixed(perMinute, 0), fixed(micros, 0)])
    yield* sql`UPDATE campaigns SET status = 'cancelled'`
  }
  return table([["SENDS A MINUTE", "REACHED", "CPU µS/SEND"], ...found])
}, Effect.scoped)

export const command = Command.make(
  "campaigns",
  { seconds: count("seconds", usual.seconds, "Seconds of each pace that are measured") },
  Effect.fnUntraced(function* (options) {
    yield* Console.log(yield* measure(options))
  })
).pipe(Command.withDescription("How much of its pace a campaign reaches"))
