/** Mutations of `src/project` and `src/operators`. */
import { mutating } from "./Mutation.ts"

const upsert = mutating("project/Projects/Upsert.ts", "project/Projects")
const references = mutating("project/Projects/References.ts", "project/Projects.references")
const pipelines = mutating("project/Projects/Deals.ts", "project/Projects")
const channels = mutating("project/Projects/Channels.ts", "project/Projects")
const deals = mutating("project/Projects/Deals.ts", "project/Projects")
const exports = mutating("project/Export.ts", "project/Projects.concurrency")
const json = mutating("project/ProjectFile.ts", "project/ProjectFile")

const history = mutating("operators/History.ts", "console/History")
const origin = mutating("commands/Command.ts", "console/History")

const refusals = mutating("http/auth/RefusedRequests.ts", "service/Health")

export const project = [
  mutating("project/Credential.ts", "project/Credential")("exit.value > countedAtOnce", "exit.value > 0"),
  mutating("project/Credential.ts", "project/Credential")("exit.value > countedAtOnce", "false"),
  mutating("project/Credential.ts", "project/Credential")(
    "withTimeout(Cache.get(counts, projectId))",
    "Effect.map(statement(count(reports, projectId)), ([row]) => row?.active)"
  ),
  mutating("project/Credential.ts", "project/Credential")("count(reports, projectId)", "count(sql, projectId)"),
  refusals("yield* Effect.addFinalizer(() => Effect.ignore(write))", ""),
  refusals("else if (counts.size < maxCounts)", "else if (false)"),
  refusals("excluded.count +", "0 *"),
  refusals("THEN old.count ELSE 0 END", "THEN old.count ELSE old.count END"),
  mutating("operators/Actions.ts", "service/Health")("WHERE project_id = ${projectId} AND key_id", "WHERE key_id"),
  mutating("operators/History.ts", "console/History")('kind === "removed" ? undefined : kind', "kind"),
  history('client: ["clients", "created_at, updated_at"],\n  deal: ["deals", "created_at, updated_at"],', ""),
  history('WHERE ${kind !== "event"} OR events.id = ${id}', ""),
  origin("redactSecrets(id)", "id"),
  origin("caller?.keyId ?? null", "null"),
  mutating("project/Projects/Upsert.ts", "project/Projects.references")(
    "if (unique !== undefined) yield* release(sql, part.table, unique, projectId, records)",
    ""
  ),
  mutating("project/Projects/References.ts", "project/Projects.references")(
    "AND id <> ALL(${changing}::text[])",
    "",
    "project/Projects"
  ),
  upsert('sql`(${columns(givenColumns, "old.")}) IS DISTINCT FROM (${sql.csv(next)})`', "sql`true`"),
  upsert("ELSE ${otherwise} END", "ELSE NULL END"),
  upsert("WHERE NOT EXISTS (SELECT FROM ${table} AS old WHERE ${same})", "WHERE true"),
  references('["deals/*/stageId", "stages"],', ""),
  references('["pipelines/*/stages/*/id", "file"],', ""),
  references('["segments/*/clientIds/*", "clients"],', ""),
  references("id === mergedIntoClientId", "false"),
  references('["channelId", "address"]', '["address"]'),
  references("WHERE project_id = ${file.project.id} AND id", "WHERE id"),
  pipelines("replaced.has(pipelineId) ? [] :", "false ? [] :"),
  pipelines("dealIn.set(stageId, id)", "undefined", "project/Projects.references"),
  pipelines(
    "AND NOT EXISTS (SELECT FROM unnest",
    "AND true OR NOT EXISTS (SELECT FROM unnest",
    "project/Projects.references"
  ),
  channels("const isSame =", "const isSame = false &&"),
  channels("old.providerType !== providerType", "false", "project/Projects.secrets"),
  channels(", ...Record.filter({ ...old }, (_, member) => member in defaults)", "", "project/Projects.concurrency"),
  deals("old?.pipelineId === pipelineId ? old.stageId : firstStage", "firstStage"),
  deals('status === "lost" ? (old?.lostReason ?? null) : null', "old?.lostReason ?? null"),
  deals("isOpen && deal.closedAt !== null", "false"),
  exports("ISOLATION LEVEL REPEATABLE READ, ", ""),
  json('given.replace(/^\\uFEFF/, "")', "given"),
  mutating("project/FileParts.ts", "project/ProjectFile")("!isBlank(value)", "value !== ''"),
  mutating("cli/Output.ts", "cli/project")("onNone: () => 0o600", "onNone: () => 0o644"),
  json('typeof value === "number" && !Number.isFinite(value)', "false"),
  json("const maxDepth = 64", "const maxDepth = 640")
]
