/** Idempotent creates (contract §5): one statement when the key is new, a second look when it is not. */
import { createHash, randomBytes } from "node:crypto"
import { setTimeout } from "node:timers/promises"
import type { Pool } from "pg"
import { Problem } from "./Problem.ts"
import { createClient, findOutcome } from "./Sql.ts"

/** RFC 8785, for what JSON.parse gives. */
export const canonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  const members = Object.entries(value)
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`)
  return `{${members.join(",")}}`
}

/** A UUIDv7 with a readable prefix. */
const newId = (now: number): string => {
  const bytes = randomBytes(16)
  bytes.writeUIntBE(now, 0, 6)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return `cli_${bytes.toString("hex")}`
}

export interface ClientCreate {
  readonly displayName: string
  readonly firstName?: string | null
  readonly lastName?: string | null
  readonly email?: string | null
  readonly phone?: string | null
  readonly tags?: ReadonlyArray<string>
  readonly externalId?: string | null
}

interface Receipt {
  readonly resourceId: string
  readonly changed: boolean
  readonly version: number
}

interface Verdict extends Receipt {
  readonly failure: string | null
  readonly claimed: boolean
}

/** Lock not available, deadlock, serialization failure: rolled back because of others, so it is sent again. */
const contended = new Set<unknown>(["55P03", "40P01", "40001"])
const patience = 4000

const persistently = async <A>(send: () => Promise<A>): Promise<A> => {
  const until = Date.now() + patience
  while (true) {
    try {
      return await send()
    } catch (error) {
      if (!(error instanceof Error && "code" in error && contended.has(error.code)) || Date.now() > until) throw error
      await setTimeout(20 + Math.random() * 10)
    }
  }
}

export const create = async (
  pool: Pool,
  projectId: string,
  key: string,
  client: ClientCreate
): Promise<Receipt & { readonly replayed: boolean }> => {
  const fingerprint = createHash("sha256")
    .update(canonicalJson(["createClient", {}, {}, client]))
    .digest()
  const now = Date.now()
  const values = [
    projectId,
    newId(now),
    client.displayName,
    client.firstName ?? null,
    client.lastName ?? null,
    client.email ?? null,
    client.phone ?? null,
    client.tags ?? [],
    client.externalId ?? null,
    new Date(now),
    key,
    fingerprint
  ]
  while (true) {
    const attempt = { name: "createClient", text: createClient, values }
    const [verdict] = (await persistently(() => pool.query<Verdict>(attempt))).rows
    if (verdict === undefined) throw new Error("A mutation gave no verdict")
    if (verdict.claimed) return { ...verdict, replayed: false }

    const stored = { name: "findOutcome", text: findOutcome, values: [projectId, key] }
    const [first] = (await pool.query<Receipt & { fingerprint: Buffer }>(stored)).rows
    if (first !== undefined) {
      if (first.fingerprint.equals(fingerprint)) return { ...first, replayed: true }
      throw new Problem(
        409,
        "idempotency_key_reused",
        "The idempotency key was used for another request.",
        "Send a new idempotency-key with a new request."
      )
    }
    if (verdict.failure !== null) {
      throw new Problem(
        409,
        "contact_capacity_exhausted",
        "The project has as many active clients as its capacity allows.",
        "Archive a client, or ask for a larger contact capacity."
      )
    }
  }
}
