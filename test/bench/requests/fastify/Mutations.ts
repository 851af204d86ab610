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

/** A statement of `mutation`, and the problem for each code of its failures. */
export interface Mutation {
  readonly name: string
  readonly text: string
  readonly problems: Readonly<Record<string, () => Problem>>
}

interface Receipt {
  readonly resourceId: string
  readonly changed: boolean
  readonly version: number
}

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

/**
 * Runs the mutation of a request whose schema requires a key, sets the headers of its outcome and returns it. `change` returns
 * the values of the change, which follow those of all mutations.
 */
export const mutate = async (
  pool: Pool,
  { name, problems, text }: Mutation,
  request: FastifyRequest,
  reply: FastifyReply,
  change: (at: Date) => ReadonlyArray<unknown>
): Promise<Receipt> => {
  const [projectId, key, at] = [projectOf(request), request.headers["idempotency-key"], new Date()]
  const form = canonicalJson([name, request.params, {}, request.body])
  const fingerprint = createHash("sha256").update(form).digest()
  const values = [projectId, key, fingerprint, at, ...change(at)]
  // The schema of the response selects the members of a receipt.
  const answer = (receipt: Receipt) => {
    reply.header("etag", `"${receipt.version}"`)
    return receipt
  }
  while (true) {
    const verdict = await untilRow(() =>
      pool.query<Receipt & { failure: string | null; claimed: boolean }>({ name, text, values })
    )
    if (verdict.claimed) return answer(verdict)

    const stored = { name: "findOutcome", text: findOutcome, values: [projectId, key] }
    const [first] = (await pool.query<Receipt & { fingerprint: Buffer }>(stored)).rows
    if (first !== undefined) {
      if (!first.fingerprint.equals(fingerprint)) throw new Problem(409, "idempotency_key_reused", ...keyReused)
      reply.header("idempotent-replayed", "true")
      return answer(first)
    }
    if (verdict.failure !== null) {
      throw problems[verdict.failure]?.() ?? new Error(`A mutation failed for an unknown reason: ${verdict.failure}`)
    }
  }
}

const keyReused = [
  "The idempotency key was used for another request.",
  "Send a new idempotency-key with a new request."
] as const
