/** The measured cases by name, with their correct answers. */
import type { Answer, Case } from "./Case.ts"
import { create, get, list, patch, replay } from "./cases/Clients.ts"

export const caseNames = ["get", "list", "create", "patch", "replay"] as const
export type CaseName = (typeof caseNames)[number]

export const cases: Record<CaseName, Case> = { get, list, create, patch, replay }

/** Returns every difference between an answer and the correct one. */
export const faultsOf = (
  { check, etag, linked = false, policy, replayed = false, status }: Case,
  answer: Answer
): ReadonlyArray<string> => {
  const faults: Array<string> = []
  const expect = (what: string, is: unknown, wanted: unknown) => {
    if (is !== wanted) faults.push(`${what} is ${JSON.stringify(is)}, not ${JSON.stringify(wanted)}`)
  }
  const { body, headers } = answer
  expect("status", answer.status, status)
  expect("content-type", headers["content-type"]?.split(";")[0], "application/json")
  expect("ratelimit-policy", headers["ratelimit-policy"]?.split(";")[0], `"${policy}"`)
  expect("ratelimit", headers["ratelimit"] === undefined, false)
  expect("x-request-id", headers["x-request-id"]?.length, 36)
  expect("link", headers["link"] !== undefined, linked)
  expect("etag of its form", (etag ?? /^$/).test(headers["etag"] ?? ""), true)
  expect("idempotent-replayed", headers["idempotent-replayed"], replayed ? "true" : undefined)
  try {
    check(body)
  } catch (error) {
    faults.push(String(error))
  }
  return faults
}
