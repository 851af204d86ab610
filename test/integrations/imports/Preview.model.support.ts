/** A model of the import preview (contract §11) that handles one record at a time, in memory. */
import { createHash } from "node:crypto"

export type Type = "contact" | "organization" | "lead" | "deal" | "task" | "activity" | "note"
export const types: ReadonlyArray<Type> = ["contact", "organization", "lead", "deal", "task", "activity", "note"]

export interface StagedRecord {
  readonly entityType: Type
  readonly externalId: string
  readonly fields: Readonly<Record<string, unknown>>
}

export interface Profile {
  readonly version: number
  readonly mappings: { readonly [T in Type]?: Readonly<Record<string, string>> }
}

export interface Client {
  readonly id: string
  readonly displayName: string
  readonly firstName: string | null
  readonly lastName: string | null
  readonly email: string | null
  readonly phone: string | null
  readonly tags: ReadonlyArray<string>
  readonly externalId: string | null
  readonly createdAt: string
}

// The types of contract §7, as far as these tests use their values.

const isText = (max: number) => (value: unknown) =>
  typeof value === "string" && value !== "" && [...value].length <= max
const orNull = (fits: (value: unknown) => boolean) => (value: unknown) => value === null || fits(value)
const isMatch = (pattern: RegExp) => (value: unknown) => typeof value === "string" && pattern.test(value)
const isTags = (value: unknown) =>
  Array.isArray(value) && value.length <= 100 && value.every(isText(160)) && new Set(value).size === value.length
const isDay = (value: unknown) =>
  typeof value === "string" &&
  /^\d{4}-\d{2}-\d{2}$/.test(value) &&
  new Date(`${value}T00:00:00Z`).toJSON()?.slice(0, 10) === value
const isAmount = (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 0
const isInstant = isMatch(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/)

const sale = {
  title: isText(160),
  amountMinor: orNull(isAmount),
  currency: orNull((value) => value === "EUR" || value === "JPY"),
  expectedCloseDate: orNull(isDay)
}

/** Predicates for the valid values of each own field. */
export const ownFields: { readonly [T in Type]: Readonly<Record<string, (value: unknown) => boolean>> } = {
  contact: {
    displayName: isText(160),
    firstName: orNull(isText(100)),
    lastName: orNull(isText(100)),
    email: orNull(isMatch(/^[a-zA-Z.]+@[a-zA-Z]+\.[a-zA-Z]+$/)),
    phone: orNull(isMatch(/^\+[1-9]\d{1,14}$/)),
    tags: isTags
  },
  organization: { name: isText(160) },
  lead: sale,
  deal: sale,
  task: { title: isText(160), dueAt: orNull(isInstant) },
  activity: { title: isText(160), at: isInstant },
  note: { body: isText(10_000) }
}

/** Compares texts by UTF-16 code units; returns -1, 0 or 1. */
export const compare = (one: string, other: string): number => {
  for (let i = 0; i < Math.min(one.length, other.length); i++) {
    const difference = one.charCodeAt(i) - other.charCodeAt(i)
    if (difference !== 0) return Math.sign(difference)
  }
  return Math.sign(one.length - other.length)
}

/** Serializes a value by RFC 8785. */
const canonical = (value: unknown): string => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  const members = Object.entries(value).sort(([one], [other]) => compare(one, other))
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join()}}`
}

const fingerprintOf = (
  installationId: string,
  profileVersion: number,
  records: ReadonlyArray<StagedRecord>
): string => {
  const sorted = [...records].sort((one, other) => compare(canonical(one), canonical(other)))
  return createHash("sha256")
    .update(canonical({ installationId, profileVersion, records: sorted }))
    .digest("hex")
}

interface Unsupported {
  readonly entityType: Type
  readonly externalField: string
  readonly reason: "not_mapped" | "restricted" | "unsupported_type"
  readonly count: number
}

/** The normal form of a text: characters that people put into a phone number go, and spaces around an email. */
const normal = (own: string | undefined, value: unknown) =>
  typeof value !== "string"
    ? value
    : own === "email"
      ? value.trim()
      : own === "phone"
        ? value
            .replace("(0)", "")
            .split(/[^\p{L}\p{N}+@]/u)
            .join("")
            .replace(/^00/, "+")
        : value

/** Returns the preview of a batch that has a profile. */
export const previewOf = (
  installationId: string,
  profile: Profile,
  records: ReadonlyArray<StagedRecord>,
  clients: ReadonlyArray<Client>
) => {
  const counts = { contact: 0, organization: 0, lead: 0, deal: 0, task: 0, activity: 0, note: 0 }
  const unsupported = new Map<string, Unsupported>()
  const estimatedChanges = { create: 0, update: 0, skip: 0 }
  const seen: Array<ReadonlySet<string>> = []
  let duplicateCount = 0

  for (const { entityType, externalId, fields } of records) {
    counts[entityType]++

    const mapped = new Map<string, unknown>()
    const mappings = new Map(Object.entries(profile.mappings[entityType] ?? {}))
    for (const externalField of Object.keys(fields).sort(compare)) {
      const own = mappings.get(externalField)
      const value = normal(own, new Map(Object.entries(fields)).get(externalField))
      const fits = own === undefined ? undefined : ownFields[entityType][own]
      const reason =
        own === undefined
          ? "not_mapped"
          : own === "restricted"
            ? "restricted"
            : fits?.(value) === true
              ? undefined
              : "unsupported_type"
      if (reason !== undefined) {
        const name = `${entityType} ${externalField}`
        const count = (unsupported.get(name)?.count ?? 0) + 1
        unsupported.set(name, { entityType, externalField, reason, count })
      } else if (own !== undefined && !mapped.has(own)) mapped.set(own, value)
    }

    const email = mapped.get("email")
    const phone = mapped.get("phone")
    const keys = new Set([
      `${entityType} ${externalId}`,
      ...(typeof email === "string" ? [`email ${email.toLowerCase()}`] : []),
      ...(typeof phone === "string" ? [`phone ${phone}`] : [])
    ])
    const repeats = seen.some((earlier) => !earlier.isDisjointFrom(keys))
    seen.push(keys)
    if (repeats) {
      duplicateCount++
      estimatedChanges.skip++
      continue
    }

    const oldest = (found: (client: Client) => boolean) =>
      clients
        .filter(found)
        .sort(
          (one, other) =>
            compare(one.createdAt, other.createdAt) || Buffer.compare(Buffer.from(one.id), Buffer.from(other.id))
        )
        .at(0)
    const client =
      entityType !== "contact"
        ? undefined
        : (oldest((client) => client.externalId === externalId) ??
          oldest((client) => typeof email === "string" && client.email?.toLowerCase() === email.toLowerCase()) ??
          oldest((client) => typeof phone === "string" && client.phone === phone))
    if (client === undefined) estimatedChanges.create++
    else {
      const own = new Map<string, unknown>(Object.entries(client))
      const differs = [...mapped].some(([field, value]) =>
        field === "tags" && Array.isArray(value)
          ? canonical([...client.tags].sort()) !== canonical([...value].sort())
          : own.get(field) !== value
      )
      estimatedChanges[differs ? "update" : "skip"]++
    }
  }

  return {
    counts,
    duplicateCount,
    unsupportedFields: [...unsupported.values()].sort(
      (one, other) => compare(one.entityType, other.entityType) || compare(one.externalField, other.externalField)
    ),
    estimatedChanges,
    profileVersion: profile.version,
    fingerprint: fingerprintOf(installationId, profile.version, records)
  }
}
