/** Idempotent mutations (contract §5): one statement when the key is new, a second look-up when it is not. */
import type { FastifyReply, FastifyRequest } from "fastify"
import { createHash, randomBytes } from "node:crypto"
import { setTimeout } from "node:timers/promises"
import type { Pool } from "pg"
import { projectOf } from "./Guard.ts"
import { Problem } from "./Problem.ts"
import { findOutcome } from "./Sql.ts"

/** Serializes a value of JSON.parse by RFC 8785. */
export const canonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  const members = Object.entries(value)
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`)
  return `{${members.join(",")}}`
}

/** Creates a UUIDv7 with a readable prefix. */
export const newId = (prefix: string, at: Date): string => {
  const bytes = randomBytes(16)
  bytes.writeUIntBE(at.getTime(), 0, 6)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return `${prefix}_${bytes.toString("hex")}`
}

/** One mutation: its project, idempotency key, fingerprint and time of arrival. */
export interface Command {
  readonly projectId: string
  readonly key: string
  readonly fingerprint: Buffer
  readonly at: Date
}

/** Reads the command from a request whose schema requires a key. */
export const commandOf = (request: FastifyRequest, operation: string): Command => ({
  projectId: projectOf(request),
  key: String(request.headers["idempotency-key"]),
  fingerprint: createHash("sha256")
    .update(canonicalJson([operation, request.params, {}, request.body]))
    .digest(),
  at: new Date()
})

/** A statement of `mutation`, and the problem for each code of its failures. */
export interface Mutation {
  readonly name: string
  readonly text: string
  /** The values of the mutation itself; they follow those that all mutations have. */
  readonly values: ReadonlyArray<unknown>
  readonly problems: Readonly<Record<string, () => Problem>>
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

export type Outcome = Receipt & { readonly replayed: boolean }

/** Lock not available, deadlock, serialization failure: rolled back because of other transactions, so it is retried. */
const contended = new Set<unknown>(["55P03", "40P01", "40001"])
const retryFor = 4000

/** Retries until there is a row. No row means that a project file is being applied, or was while the statement ran. */
const untilRow = async <A>(send: () => Promise<{ readonly rows: ReadonlyArray<A> }>): Promise<A> => {
  const until = Date.now() + retryFor
  while (true) {
    try {
      const [row] = (await send()).rows
      if (row !== undefined) return row
      if (Date.now() > until) throw new Error("A project file is being applied")
    } catch (error) {
      if (!(error instanceof Error && "code" in error && contended.has(error.code)) || Date.now() > until) throw error
    }
    await setTimeout(20 + Math.random() * 10)
  }
}

export const mutate = async (pool: Pool, command: Command, mutation: Mutation): Promise<Outcome> => {
  const { at, fingerprint, key, projectId } = command
  const { name, problems, text } = mutation
  const values = [projectId, key, fingerprint, at, ...mutation.values]
  while (true) {
    const verdict = await untilRow(() => pool.query<Verdict>({ name, text, values }))
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
      throw problems[verdict.failure]?.() ?? new Error(`A mutation failed for an unknown reason: ${verdict.failure}`)
    }
  }
}

/** Sets the headers of an outcome and returns it; the response's schema selects the members of a receipt. */
export const receipt = (reply: FastifyReply, status: 200 | 201, outcome: Outcome): Outcome => {
  reply.code(status).header("etag", `"${outcome.version}"`)
  if (outcome.replayed) reply.header("idempotent-replayed", "true")
  return outcome
}
