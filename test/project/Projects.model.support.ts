/** A model of contract §12: the project as an export shows it, and what an apply reports and stores. */
import { modules } from "../../src/api/Access.ts"
import { canonicalJson } from "../../src/commands/Command.ts"
import { jsonSchema } from "../../src/project/ProjectFile.ts"
import type { File } from "./Projects.support.ts"

export type Parts = Omit<File, "project">
export type PartName = keyof Parts
export type Value = Readonly<Record<string, unknown>>

/** A stored project: its records by part, each by its key, with all members that an export has. */
export interface State {
  readonly project: Value
  readonly records: ReadonlyMap<string, ReadonlyMap<string, Value>>
  /** The configs of channels, which no export has. */
  readonly configs: ReadonlyMap<string, Value>
}

export type Outcome = "created" | "updated" | "unchanged"
interface Applied {
  readonly state: State
  /** The outcome of each record of the file. */
  readonly outcomes: ReadonlyMap<string, ReadonlyMap<string, Outcome>>
}

/** Returns the value of an untyped object's member. */
const at = (value: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce(
    (inner: unknown, member) => (typeof inner === "object" ? Reflect.get(Object(inner), member) : undefined),
    value
  )
const text = (value: unknown) => (typeof value === "string" ? value : "")

export const arrayOf = (value: unknown): ReadonlyArray<Value> => (Array.isArray(value) ? value : [])

/** The members of a part's records with the values of those that a new record lacks, as `project schema` documents them. */
const initialOf = (part: string): Value => {
  const items = at(jsonSchema, "properties", part, "items") ?? at(jsonSchema, "properties", part)
  const properties = at(items, "properties") ?? at(items, "anyOf", 0, "properties")
  return Object.fromEntries(
    Object.entries(Object(properties)).map(([member, schema]) => [
      member,
      at(schema, "default") ?? at(schema, "allOf", 0, "default") ?? null
    ])
  )
}

/** A template has several versions. */
export const keyOf = (part: string, { id, version }: Value) =>
  part === "templates" ? `${text(id)} ${String(version)}` : text(id)

const noLoyalty = { cardNumber: null, levelId: null, balance: 0, readyStampOfferIds: [] }
const isSame = (one: unknown, other: unknown) => canonicalJson(one) === canonicalJson(other)

const instants = new Set(["createdAt", "closedAt", "dueAt", "completedAt"])

/** Converts the given members to the form of an export. */
const normal = (part: string, record: Value, old: Value | undefined): Value =>
  Object.fromEntries(
    Object.entries(record)
      .filter(([, value]) => value !== undefined)
      .map(([member, value]): [string, unknown] => {
        if (instants.has(member) && value !== null) return [member, new Date(text(value)).toISOString()]
        if (part === "conversations" && member === "id") return [member, text(value).toLowerCase()]
        if (member === "clientIds" && Array.isArray(value)) return [member, value.toSorted()]
        // A rating is one value; of loyalty each member is kept.
        if (member === "rating" && value !== null) return [member, { comment: null, ...Object(value) }]
        if (member !== "loyalty") return [member, value]
        const loyalty = value === null ? noLoyalty : { ...Object(old?.["loyalty"] ?? noLoyalty), ...Object(value) }
        return [member, isSame(loyalty, noLoyalty) ? null : loyalty]
      })
  )

/** Applies a file to the model: the next state, or the faults in their order. */
export const applied = (
  before: State | undefined,
  { project, ...given }: File,
  now: Date
): Applied | ReadonlyArray<string> => {
  const old = (part: string, key: string) => before?.records.get(part)?.get(key)
  const nextProject: Record<string, unknown> = {
    ...initialOf("project"),
    modules,
    rateLimits: {},
    ...before?.project,
    ...project
  }

  const configs = new Map(before?.configs)
  const faults = (given.channels ?? []).flatMap(({ config, id, providerType }, index) => {
    const stored = old("channels", id)?.["providerType"] === providerType ? before?.configs.get(id) : undefined
    if (config === undefined && stored === undefined && providerType !== "sandbox") {
      const isNew = old("channels", id) === undefined
      return [`channels/${index}/config: is required ${isNew ? "for a new channel" : "when the providerType changes"}`]
    }
    const base = providerType === "telegram" ? { apiBaseUrl: stored?.["apiBaseUrl"] ?? "https://api.telegram.org" } : {}
    configs.set(id, config === undefined ? (stored ?? {}) : { ...base, ...config })
    return []
  })

  const stagesOf = (pipeline: Value | undefined) => arrayOf(pipeline?.["stages"]).map(({ id }) => text(id))
  const storedPipelines = new Map(before?.records.get("pipelines"))
  const pipelines = new Map([
    ...storedPipelines,
    ...(given.pipelines ?? []).map((pipeline): [string, Value] => [pipeline.id, pipeline])
  ])
  // A project without a default pipeline that has exactly one gets it.
  if (pipelines.size === 1) nextProject["defaultPipelineId"] ??= [...pipelines.keys()][0]
  const deals = (given.deals ?? []).map((deal) =>
    placed(
      deal,
      old("deals", deal.id),
      text(nextProject["defaultPipelineId"]),
      (id) => stagesOf(pipelines.get(id)),
      now
    )
  )
  const replaced = new Set<string>(given.pipelines?.map(({ id }) => id))
  for (const [index, { stages }] of (given.pipelines ?? []).entries()) {
    for (const [place, { id }] of stages.entries()) {
      const owner = [...storedPipelines].find(
        ([other, pipeline]) => !replaced.has(other) && stagesOf(pipeline).includes(id)
      )
      if (owner === undefined) continue
      faults.push(
        `pipelines/${index}/stages/${place}/id: belongs to the pipeline ${owner[0]}, which the file doesn't replace`
      )
    }
  }
  for (const [index, { id, stages }] of (given.pipelines ?? []).entries()) {
    const kept = new Set<string>(stages.map((stage) => stage.id))
    for (const lost of stagesOf(storedPipelines.get(id)).filter((stage) => !kept.has(stage))) {
      const left = [...(before?.records.get("deals")?.values() ?? [])].filter(
        (deal) => deal["stageId"] === lost && !deals.some((other) => other["id"] === deal["id"])
      )
      const here = deals.filter((deal) => deal["stageId"] === lost && deal["pipelineId"] === id)
      const inIt =
        here.at(-1) ??
        left.toSorted((one, other) => Buffer.compare(Buffer.from(text(one["id"])), Buffer.from(text(other["id"]))))[0]
      if (inIt === undefined) continue
      faults.push(
        `pipelines/${index}/stages: must keep the stage ${lost}: the deal ${shown(text(inIt["id"]))} is in it`
      )
    }
  }
  const known = new Set([...pipelines.values()].flatMap(stagesOf))
  for (const [index, deal] of deals.entries()) {
    const own = given.deals?.[index]?.stageId
    const pipeline = pipelines.get(text(deal["pipelineId"]))
    const isElsewhere =
      own !== undefined && known.has(own) && pipeline !== undefined && !stagesOf(pipeline).includes(own)
    faults.push(...brokenRules(deal, isElsewhere).map((fault) => `deals/${index}/${fault}`))
  }
  if (faults.length > 0) return faults

  const outcomes = new Map([["project", new Map([["project", outcomeOf(before?.project, nextProject)]])]])
  const records = new Map(before?.records)
  for (const [part, list] of Object.entries(given)) {
    const outcome = new Map<string, Outcome>()
    const all = new Map(records.get(part))
    for (const [index, record] of list.entries()) {
      const key = keyOf(part, normal(part, record, undefined))
      const stored = all.get(key)
      const { config: _, ...next }: Value = {
        ...initialOf(part),
        ...(part === "clients" || part === "deals" ? { createdAt: now.toISOString() } : {}),
        ...stored,
        ...normal(part, part === "deals" ? (deals[index] ?? {}) : record, stored)
      }
      const isSealedAnew = part === "channels" && !isSame(before?.configs.get(key), configs.get(key))
      all.set(key, next)
      outcome.set(key, isSealedAnew && stored !== undefined ? "updated" : outcomeOf(stored, next))
    }
    records.set(part, all)
    outcomes.set(part, outcome)
  }
  return { state: { project: nextProject, records, configs }, outcomes }
}

const outcomeOf = (old: unknown, next: unknown): Outcome =>
  old === undefined ? "created" : isSame(old, next) ? "unchanged" : "updated"

/** An id in a line of faults: its code units, one by one, where the character is a control, a format or a line. */
const shown = (id: string) =>
  Array.from(id, (character) => {
    const units = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i))
    const isShown = !/\p{Cc}|\p{Cf}|\p{Zl}|\p{Zp}/u.test(character)
    return isShown ? character : units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("")
  }).join("")

/** Returns a deal with the members that depend on the stored deal and on its pipeline. */
const placed = (
  deal: Value,
  old: Value | undefined,
  fallback: string,
  stagesOf: (pipeline: string) => ReadonlyArray<string>,
  now: Date
): Value => {
  const of = (member: string, otherwise: unknown) => (deal[member] === undefined ? otherwise : deal[member])
  const pipelineId = of("pipelineId", old?.["pipelineId"] ?? (fallback === "" ? null : fallback))
  const status = of("status", old?.["status"] ?? "open")
  const isKept = old?.["pipelineId"] === pipelineId
  return {
    ...deal,
    pipelineId,
    status,
    stageId: of("stageId", isKept ? old?.["stageId"] : stagesOf(text(pipelineId))[0]),
    amountMinor: of("amountMinor", old?.["amountMinor"] ?? null),
    currency: of("currency", old?.["currency"] ?? null),
    lostReason: of("lostReason", status === "lost" ? (old?.["lostReason"] ?? null) : null),
    closedAt: of("closedAt", status === "open" ? null : (old?.["closedAt"] ?? now.toISOString()))
  }
}

const brokenRules = (deal: Value, isElsewhere: boolean): ReadonlyArray<string> => {
  const { amountMinor, closedAt, currency, lostReason, pipelineId, status } = deal
  const rules: ReadonlyArray<readonly [fault: string, isBroken: boolean]> = [
    ["pipelineId: is required while the project has no default pipeline", pipelineId === null],
    ["stageId: names no stage of the deal's pipeline", isElsewhere],
    ["amountMinor: is required with a currency", amountMinor === null && currency !== null],
    ["currency: is required with an amount", amountMinor !== null && currency === null],
    ["lostReason: must be null unless the deal is lost", status !== "lost" && lostReason !== null],
    ["closedAt: must be null while the deal is open", status === "open" && closedAt !== null],
    ["closedAt: must not be null once the deal is won or lost", status !== "open" && closedAt === null]
  ]
  return rules.flatMap(([fault, isBroken]) => (isBroken ? [fault] : []))
}

/** Returns the export of a state. */
export const exportOf = ({ project, records }: State, names: ReadonlyArray<string>): Value => ({
  project,
  ...Object.fromEntries(names.map((name) => [name, [...(records.get(name)?.values() ?? [])]]))
})
