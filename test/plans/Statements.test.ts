/** Checks that `npm run sql` shows every statement. */
import { assert, describe, it } from "vitest"
import { workedOn } from "../support/Locks.ts"
import { installedVersions } from "../support/Postgres.ts"
import { checkout, runToEnd } from "../support/Process.ts"
import { isContinuousIntegration } from "../support/Judges.ts"
import { join } from "node:path"

/** Templates whose statement the walk does not send. */
const unreached = [
  // The first start with an embedded database checks whether it is new, and adds records to its demo project.
  "src/service/Welcome.ts",
  "src/service/Welcome.ts",
  // A claim leaves out locked deliveries only after another claim has met one.
  "src/webhooks/delivery/DeliveryLoop/Claim.ts"
]

/** Moves take two servers, of which the walk has one, and migrations may need no concurrent index. Their tests send the statements. */
const sentElsewhere = /^src\/(cells|sql\/migrations)\//

/** Statements that may take rows of projects at rest: those of results, for which a move waits. */
const takenBefore = [
  "src/messaging/Calls.ts",
  "src/webhooks/delivery/DeliveryLoop/Record.ts",
  "src/webhooks/delivery/DeliveryLoop/Record.ts",
  "src/webhooks/delivery/Disabling.ts"
]

/** Plans that read more rows the more there are, each for a reason. All others find a page, or a few rows, by an index. */
const accepted: Readonly<Record<string, ReadonlyArray<string>>> = {
  "the webhooks of a project, each of which may subscribe to the event": [
    "src/crm/Clients.ts createClients: reads webhooks without a limit by webhooks_pkey",
    "src/crm/Clients/Erase.ts erase: reads webhooks without a limit by webhooks_pkey",
    "src/crm/Clients/Patch.ts patch: reads webhooks without a limit by webhooks_pkey",
    "src/crm/Deals.ts createDeals: reads webhooks without a limit by webhooks_pkey",
    "src/crm/Deals/Patch.ts patch: reads webhooks without a limit by webhooks_pkey",
    "src/crm/Tasks.ts complete: reads webhooks without a limit by webhooks_pkey",
    "src/crm/Tasks.ts create: reads webhooks without a limit by webhooks_pkey",
    "src/http/auth/Credentials.ts read: reads webhooks without a limit by webhooks_pkey"
  ],
  "a queue, in an index that has nothing else: what is under way": [
    "src/campaigns/Runner/Release.ts statementOf: reads campaigns without a limit by campaigns_under_way",
    "src/campaigns/Runner/Release.ts statementOf: sorts campaigns below a limit",
    "src/campaigns/CampaignControl.ts pauseAll: reads campaigns without a limit by campaigns_under_way",
    "src/campaigns/Runner.ts advance: reads campaigns without a limit by campaigns_under_way",
    "src/webhooks/delivery/DeliveryLoop/Claim.ts claim: sorts endpoint_health below a limit",
    "src/webhooks/delivery/DeliveryMetrics.ts measureReplays: reads replays without a limit by replays_under_way",
    // Erasures of the last two minutes.
    "src/campaigns/Retention.ts eraseTexts: reads all of erasures",
    // Once for each start of a worker, of a table with a row for each command of an operator.
    "src/webhooks/Replays.ts endFormer: reads all of replays",
    "src/webhooks/Replays.ts listRunning: sorts replays below a limit",
    "src/messaging/MessageLoop.ts measureQueue: skips a column of messages_by_channel",
    "src/operators/Troubles.ts countAbandoned: skips a column of messages_by_channel",
    "src/cells/Replication.ts slots: reads projects without a limit by projects_moving"
  ],
  "the whole of what it is about, on purpose: the keys of a cell, the clients of an audience, the events of a client, the audiences and endpoints of a project, the stages of a file, the count of a capacity":
    [
      "src/cli/commands/database.ts map: reads api_keys without a limit by api_keys_by_age",
      "src/cli/commands/database.ts map: reads api_keys without a limit by api_keys_key_id",
      "src/campaigns/Retention.ts eraseTexts: reads audiences without a limit by audiences_pkey",
      "src/campaigns/Retention.ts eraseTexts: reads endpoint_health without a limit by endpoint_health_pkey",
      // Where the statistics say that a few clients have all deals.
      "src/crm/Clients/Erase.ts erase: reads deals without a limit by deals_pkey",
      "src/crm/Clients/Erase.ts erase: reads events without a limit by events_of_clients",
      "src/campaigns/CommandStatement.ts commandOn: reads audiences without a limit by audiences_pkey",
      "src/campaigns/CommandStatement.ts commandOn: reads channels without a limit by channels_by_age",
      "src/campaigns/CommandStatement.ts commandOn: reads clients without a limit by clients_pkey",
      "src/campaigns/CommandStatement.ts commandOn: reads deals without a limit by deals_pkey",
      "src/project/Projects/Deals.ts loadPipelines: reads stages without a limit by stages_project_id_pipeline_id_id_key",
      "src/project/Projects/Deals.ts removedStagesInUse: reads deals without a limit by deals_pkey",
      // The active clients of a project without a capacity.
      "src/project/Credential.ts count: reads clients without a limit by clients_by_age",
      "src/project/Projects.ts closeProject: reads clients without a limit by clients_pkey"
    ],
  "once or rarely: the end of a project, a walk over all secrets, links and sessions that have expired": [
    "src/project/Deletion.ts markDeleted: reads api_keys without a limit by api_keys_by_age",
    "src/project/Deletion.ts markDeleted: reads campaigns without a limit by campaigns_pkey",
    "src/project/Deletion.ts markDeleted: reads endpoint_health without a limit by endpoint_health_pkey",
    "src/sql/migrations/Ledger.ts adopt: reads applied_migrations without a limit by applied_migrations_pkey",
    "src/sql/migrations/Ledger.ts applied: reads applied_migrations without a limit by applied_migrations_pkey",
    "src/webhooks/WebhookSecrets.ts signingSecrets: filters webhook_secrets below a limit",
    "src/secrets/SealedValues.ts sealedColumn: filters webhooks below a limit",
    "src/http/auth/OperatorSessions.ts issue: reads all of console_links",
    "src/http/auth/OperatorSessions.ts makeSessions: reads all of console_ended_sessions"
  ],
  "few rows: stages of a pipeline, channels with due messages, clients with one email": [
    "src/crm/Deals/Patch.ts patch: sorts stages below a limit",
    "src/messaging/Claim.ts claim: sorts channels below a limit",
    "src/crm/Clients.ts list: sorts clients below a limit"
  ],
  "the keys of all projects that end within 14 days, in the order of an index": [
    "src/http/auth/EndingKeys.ts listEnding: filters api_keys below a limit"
  ],
  "keys whose requests were refused, with three rows at most": [
    "src/http/auth/RefusedRequests.ts listRefused: reads all of refused_requests"
  ],
  "projects at rest, which are few": [
    "src/work/Retention.ts prune: filters projects below a limit",
    "src/service/StoredData.ts retentions: filters projects below a limit"
  ],
  "the attempts of a project in a period of at most seven days": [
    "src/webhooks/delivery/DeliveryMetrics.ts readAttempts: reads attempt_minutes without a limit by attempt_minutes_pkey"
  ],
  "the first projects with a disabled webhook or a paused campaign, and 10,000 enabled webhooks": [
    "src/operators/Troubles.ts countEndpoints: reads all of webhooks",
    "src/operators/Troubles.ts findWaiting: filters webhooks below a limit",
    // Reads the index alone: some 20 ms for 300,000 campaigns of 50,000 projects.
    "src/operators/Troubles.ts findWaiting: skips a column of campaigns_by_status"
  ]
}

/**
 * Plans that depend on the statistics that the walk happens to leave: a search of the console, which has a second. It goes by an
 * index, unless the table had a single row when it was analyzed. Before version 17, a page's webhooks are found among those of
 * their project.
 */
const varying: ReadonlySet<string> = new Set([
  "src/operators/History.ts findRecords: filters api_keys below a limit",
  "src/operators/History.ts findRecords: sorts deliveries below a limit",
  "src/webhooks/WebhookList.ts list: filters webhooks below a limit"
])

/** Runs `npm run sql` with plans on the embedded PostgreSQL or an installed version, and returns what it prints. */
const walk = async (version?: number) => {
  const hooks = join(checkout, "test/plans/hooks.ts")
  const server = version === undefined ? [] : [`--postgres=${version}`]
  const { code, stderr, stdout } = await runToEnd("node", [
    "--import",
    hooks,
    "test/plans/run.ts",
    "--plans",
    ...server
  ])
  assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
  assert.notMatch(stdout, /no plan/)
  return stdout
}

/** What is wrong with the plans on tables that were never analyzed, that have one row, and that have a million. */
const wrongIn = (stdout: string) => {
  const wrong = new Set([...stdout.matchAll(/^-- wrong plan \([^)]*\): (.*)$/gm)].map(([, fault = ""]) => fault))
  return [...wrong].filter((fault) => !varying.has(fault)).toSorted()
}
const isWorkedOn: ReadonlySet<string> = new Set(workedOn)

const expected = Object.values(accepted).flat().toSorted()

describe("npm run sql", () => {
  it("shows every SQL template of the source as part of a statement, each with its plan, which is right whatever the statistics", async () => {
    const stdout = await walk()
    assert.deepStrictEqual(
      [...stdout.matchAll(/^-- not sent by the walk: ([^:]+)/gm)]
        .map(([, file = ""]) => file)
        .filter((file) => !sentElsewhere.test(file)),
      unreached
    )
    assert.isAbove([...stdout.matchAll(/^-- source: /gm)].length, 100)
    // Whatever takes rows of any project leaves projects at rest alone; mutations enter their project.
    const takes = stdout.split(/^-- source: /m).filter((text) => text.includes("SKIP LOCKED"))
    assert.isAbove(takes.length, 15)
    assert.deepStrictEqual(
      takes
        .filter((text) => !text.includes("resting_projects()") && !text.includes("enter_project("))
        .map((text) => text.slice(0, text.indexOf(":"))),
      takenBefore
    )
    assert.deepStrictEqual(wrongIn(stdout), expected)
    // In a new database, where all indexes look alike, a look-up of a message takes its whole key: otherwise it would read all messages
    // of a project. Lists go by age, and a deleted project is read.
    const reading = /using messages_(?:by_age on|listed on|pkey on [^\n]*\n(?![^\n]*[( ]id [=>]))/
    const readers = stdout.split(/^(?=-- src)/m).filter((text) => reading.test(text))
    assert.deepStrictEqual(
      new Set(readers.map((text) => text.slice(0, text.indexOf("\n")))),
      new Set(["-- src/messaging/MessageControl.ts find", "-- src/project/Deletion.ts removeBatch"])
    )
    // One test locks rows of each table that background work changes. It only adds entries to the audit.
    const background = stdout.split(/^-- pool: /m).filter((text) => text.startsWith("developer-api workers\n"))
    const changed = background.flatMap((text) =>
      [...text.matchAll(/(?<!FOR )\b(?:UPDATE|DELETE FROM|INSERT INTO) "?([a-z_]+)/g)].map(([, table = ""]) => table)
    )
    assert.isAbove(changed.length, 20)
    assert.deepStrictEqual(
      [...new Set(changed)].filter((table) => !isWorkedOn.has(table)),
      ["audit_entries"]
    )
  })

  it("has the same plans on the versions of PostgreSQL that are installed, among them 15, the oldest", async ({
    skip
  }) => {
    if (!isContinuousIntegration && installedVersions.length === 0) skip("apt-get install postgresql-15")
    if (isContinuousIntegration) assert.include(installedVersions, 15)
    for (const version of installedVersions)
      assert.deepStrictEqual(wrongIn(await walk(version)), expected, `${version}`)
  })
})
