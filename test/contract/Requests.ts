/** Requests made from the samples, with the changes of a test. */
import { randomBytes } from "node:crypto"
import { crc32 } from "node:zlib"
import type { Request } from "../support/ContractHttp.ts"
import type { Reference, Sample } from "./Sample.ts"

/** Returns an unused key that is valid for every operation. */
export const newKey = () => `key-${randomBytes(8).toString("hex")}`

/** Returns a token: `body` with the checksum that contract §3 describes. */
export const tokenOf = (body: string) => {
  const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
  let digits = ""
  for (let rest = crc32(body); rest > 0; rest = Math.floor(rest / 62)) digits = alphabet.charAt(rest % 62) + digits
  return body + digits.padStart(6, "0")
}

export interface Change {
  /** Percent-encoded path parameters. */
  readonly params?: Readonly<Record<string, string>>
  /** The query as it is sent. */
  readonly query?: string
  readonly json?: unknown
  readonly body?: string | Uint8Array
  readonly chunked?: boolean
  /** The idempotency key; undefined for none. */
  readonly key?: string | undefined
  readonly headers?: Readonly<Record<string, string | Array<string>>>
}

export const queryOf = (sample: Sample): ReadonlyArray<readonly [string, string]> =>
  Object.entries(sample.query ?? {}).flatMap(([name, value]) => (value === null ? [] : [[name, value] as const]))

/** Returns the request of a sample, with or without a token. */
export const requestOf = (sample: Sample, token: string | undefined, change: Change = {}): Request => {
  const params = { ...sample.params, ...change.params }
  const path = sample.path.replace(/\{(\w+)\}/g, (_, name: string) => params[name] ?? "")
  const query = change.query ?? new URLSearchParams(queryOf(sample).map(([...pair]) => pair)).toString()
  const key = "key" in change ? change.key : sample.key === undefined ? undefined : newKey()
  const json = change.body === undefined && sample.body !== undefined ? { json: sample.body } : {}
  return {
    method: sample.method,
    path: `/api${path}${query === "" ? "" : `?${query}`}`,
    token,
    key,
    ...json,
    ...("json" in change ? { json: change.json } : {}),
    ...(change.body === undefined ? {} : { body: change.body }),
    ...(change.chunked === undefined ? {} : { chunked: change.chunked }),
    headers: {
      ...(change.body !== undefined && sample.body !== undefined ? { "content-type": "application/json" } : {}),
      ...change.headers
    }
  }
}

/** Returns the change that replaces the ids at references of a sample. */
export const referring = (
  sample: Sample,
  references: ReadonlyArray<Reference>,
  idOf: (reference: Reference) => string
): Change => {
  const ids = references.flatMap((reference) =>
    reference.at[0] === "path" ? [[reference.at[1], idOf(reference)]] : []
  )
  const members = references.flatMap((reference) =>
    reference.at[0] === "body" ? [[reference.at[1], reference.holding?.(idOf(reference)) ?? idOf(reference)]] : []
  )
  return {
    params: Object.fromEntries(ids),
    ...(sample.body === undefined ? {} : { json: { ...sample.body, ...Object.fromEntries(members) } })
  }
}

/** Yields the location of each string in a value, with a function that replaces that string. */
export function* stringsOf(
  value: unknown,
  location: string,
  put: (value: unknown) => unknown = (value) => value
): Generator<readonly [location: string, replaced: (text: string) => unknown]> {
  if (typeof value === "string") yield [location, put]
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      yield* stringsOf(item, `${location}/${index}`, (other) => put(value.with(index, other)))
    }
  } else if (typeof value === "object" && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      yield* stringsOf(member, `${location}/${name}`, (other) => put({ ...value, [name]: other }))
    }
  }
}
