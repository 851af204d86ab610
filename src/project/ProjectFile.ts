/**
 * The project file: the JSON in which operators describe a project (contract §12). Faults name the place, but do not quote the text, which
 * may be a secret.
 */
import { DateTime, Option, Result, Schema, Struct } from "effect"
import { Module } from "../api/Access.ts"
import { text } from "../api/schema/Fields.ts"
import {
  CampaignId,
  ChannelId,
  ClientId,
  ConversationId,
  InstallationId,
  PipelineId,
  ProjectId,
  SegmentId,
  TemplateId
} from "../api/schema/Ids.ts"
import { type Fault, faultsOf } from "../api/schema/Faults.ts"
import { isUnsafe, unsafeMessage, withEscapes } from "../platform/Text.ts"
import {
  Client,
  count,
  Deal,
  isVisible,
  LoyaltyLevel,
  Member,
  name,
  optional,
  Organization,
  Pipeline,
  positive,
  StampOffer,
  Task,
  Ticket
} from "./FileParts.ts"
import { ChannelStatus, providerTypes } from "../api/messaging/Messaging.ts"
import { channelsWith } from "../messaging/providers/Connectors.ts"
import { EntityType, ExternalField } from "../api/integrations/Installations.ts"
import { importFields } from "../imports/Evaluation.ts"

/** A zone of the IANA database. Offsets such as `+02:00`, which the runtime also accepts, are refused. */
const TimeZone = Schema.String.check(
  Schema.makeFilter((text: string) => /^[A-Za-z]/.test(text) && Option.isSome(DateTime.zoneMakeNamed(text)), {
    expected: "an IANA time zone, such as Europe/Berlin"
  })
)

const RateLimit = Schema.Struct({ limit: positive, windowSeconds: positive })

const Project = Schema.Struct({
  id: ProjectId.check(isVisible),
  name,
  timeZone: optional(TimeZone, "UTC"),
  contactCapacity: optional(Schema.NullOr(count), null),
  modules: optional(Schema.Array(Module).check(Schema.isUnique({ expected: "a list without repeats" }))),
  entitlements: optional(Schema.Array(text(1, 160)).check(Schema.isUnique({ expected: "a list without repeats" })), [
    "developer_api"
  ]),
  rateLimits: optional(
    Schema.Struct({ read: optional(RateLimit), write: optional(RateLimit), messages: optional(RateLimit) })
  ),
  defaultPipelineId: optional(Schema.NullOr(PipelineId))
})

const Segment = Schema.Struct({
  id: SegmentId.check(isVisible),
  name,
  description: optional(Schema.NullOr(text(0, 1000))),
  clientIds: Schema.Array(ClientId)
})

const listed = (names: ReadonlyArray<string>) => `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`

/** A channel. Its `providerType` selects the connector, and so the schema of its config (contract §8). */
const Channel = channelsWith({
  id: ChannelId.check(isVisible),
  displayName: name,
  status: optional(ChannelStatus, "active")
}).annotate({ expected: `a channel whose providerType is ${listed(providerTypes)}` })

const Conversation = Schema.Struct({
  id: ConversationId,
  clientId: optional(Schema.NullOr(ClientId)),
  channelId: ChannelId,
  address: text(1, 500)
})

const mapping = <const Field extends string>(fields: ReadonlyArray<Field>) =>
  Schema.optionalKey(Schema.Record(ExternalField, Schema.Literals([...fields, "restricted"])))

const ImportProfile = Schema.Struct({
  version: positive,
  mappings: Schema.Struct({
    contact: mapping(Struct.keys(importFields.contact)),
    organization: mapping(Struct.keys(importFields.organization)),
    lead: mapping(Struct.keys(importFields.lead)),
    deal: mapping(Struct.keys(importFields.deal)),
    task: mapping(Struct.keys(importFields.task)),
    activity: mapping(Struct.keys(importFields.activity)),
    note: mapping(Struct.keys(importFields.note))
  })
})

const StagedRecord = Schema.Struct({
  entityType: EntityType,
  externalId: text(1, 160),
  fields: Schema.Record(ExternalField, Schema.Unknown)
})

const Installation = Schema.Struct({
  id: InstallationId.check(isVisible),
  name,
  status: optional(Schema.Literals(["active", "disabled"]), "active"),
  importProfile: optional(Schema.NullOr(ImportProfile)),
  stagedRecords: optional(Schema.Array(StagedRecord), [])
})

/** One version of a template. Several versions share an id. */
const Template = Schema.Struct({ id: TemplateId.check(isVisible), version: positive, name, body: text(1, 4096) })

/** The API sets the names of campaigns, too, and takes any text. */
const Campaign = Schema.Struct({ id: CampaignId.check(isVisible), name: text(1, 160) })

/** Records are matched by id, templates by id and version. Records that the file does not name are left alone. */
export const ProjectFile = Schema.Struct({
  project: Project,
  members: Schema.optionalKey(Schema.Array(Member)),
  organizations: Schema.optionalKey(Schema.Array(Organization)),
  pipelines: Schema.optionalKey(Schema.Array(Pipeline)),
  loyaltyLevels: Schema.optionalKey(Schema.Array(LoyaltyLevel)),
  stampOffers: Schema.optionalKey(Schema.Array(StampOffer)),
  channels: Schema.optionalKey(Schema.Array(Channel)),
  clients: Schema.optionalKey(Schema.Array(Client)),
  deals: Schema.optionalKey(Schema.Array(Deal)),
  tickets: Schema.optionalKey(Schema.Array(Ticket)),
  conversations: Schema.optionalKey(Schema.Array(Conversation)),
  segments: Schema.optionalKey(Schema.Array(Segment)),
  templates: Schema.optionalKey(Schema.Array(Template)),
  campaigns: Schema.optionalKey(Schema.Array(Campaign)),
  installations: Schema.optionalKey(Schema.Array(Installation)),
  tasks: Schema.optionalKey(Schema.Array(Task))
}).annotate({ title: "Project file" })
export type ProjectFile = typeof ProjectFile.Type

/** Formats a fault: `clients/3/email: must be a mail address`. A fault of the file as a whole has no path. */
export const lineOf = ({ message, path }: Fault): string =>
  withEscapes(path.length === 0 ? `the file ${message}` : `${path.map(String).join("/")}: ${message}`)

const strict = { onExcessProperty: "error", errors: "all" } as const
const decode = Schema.decodeUnknownResult(ProjectFile, strict)

/** Parses JSON text as a project file. Fails with a line for each fault of its shape: `path: message`. */
export const parseProjectFile = (text: string): Result.Result<ProjectFile, ReadonlyArray<string>> =>
  parseJson(text).pipe(
    Result.mapError((fault) => [fault]),
    Result.flatMap((json) => {
      const decoded = decode(json)
      const faults = faultsOfJson(json)
      if (Result.isSuccess(decoded) && faults.length === 0) return Result.succeed(decoded.success)
      const ofSchema = Result.isFailure(decoded) ? faultsOf(decoded.failure.issue) : []
      return Result.fail([...ofSchema, ...faults].map(lineOf))
    })
  )

const document = Schema.toJsonSchemaDocument(ProjectFile, { onExcessProperty: strict.onExcessProperty })

/** The file's JSON Schema, draft 2020-12. It does not cover blank names, time zones, dates and references. */
export const jsonSchema: Record<string, unknown> = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  ...document.schema,
  ...(Object.keys(document.definitions).length > 0 ? { $defs: document.definitions } : {})
}

/** Maximum nesting, so that recursive functions do not exhaust the stack. */
const maxDepth = 64

/**
 * Parses JSON text, with or without a byte order mark. Fails with the line and column at which the text becomes invalid (from 1, in
 * UTF-16 code units).
 */
const parseJson = (given: string): Result.Result<unknown, string> => {
  const text = given.replace(/^\uFEFF/, "")
  return Result.try({
    try: (): unknown => JSON.parse(text),
    // Not the parser's message, because it quotes the text, which may contain secrets.
    catch: () => {
      const before = text.slice(0, offsetOfFault(text)).split("\n")
      return `invalid JSON at line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`
    }
  })
}

/**
 * Returns the offset of the first character that makes the text invalid: the length of the longest prefix that could be
 * continued to valid JSON. Uses a binary search, because the parser reports an offset only for some faults.
 */
const offsetOfFault = (text: string): number => {
  let [valid, faulty] = [0, text.length + 1]
  while (faulty - valid > 1) {
    const middle = Math.floor((valid + faulty) / 2)
    if (canContinue(text.slice(0, middle))) valid = middle
    else faulty = middle
  }
  return valid
}

/** Whether a text is valid JSON or the beginning of valid JSON. */
const canContinue = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch (error) {
    const message = error instanceof Error ? error.message : ""
    const position = /at position (\d+) \(line \d+ column \d+\)$/.exec(message)?.[1]
    return message === "Unexpected end of JSON input" || position === String(text.length)
  }
}

/** Lists faults that no schema checks: text that the database cannot store, infinite numbers and too deep nesting. */
const faultsOfJson = (root: unknown): ReadonlyArray<Fault> => {
  const faults: Array<Fault> = []
  const visit = (value: unknown, path: ReadonlyArray<PropertyKey>): void => {
    if (typeof value === "string" && isUnsafe(value)) faults.push({ path, message: unsafeMessage })
    // `JSON.parse` reads a number that is too large as Infinity, which JSON cannot represent.
    if (typeof value === "number" && !Number.isFinite(value)) faults.push({ path, message: "must be a smaller number" })
    if (typeof value !== "object" || value === null) return
    if (path.length > maxDepth) {
      faults.push({ path, message: `must not be nested more than ${maxDepth} deep` })
      return
    }
    for (const [key, member] of Object.entries(value)) {
      const at = [...path, key]
      if (isUnsafe(key)) faults.push({ path: at, message: `${unsafeMessage} in its name` })
      visit(member, at)
    }
  }
  visit(root, [])
  return faults
}
