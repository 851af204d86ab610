/** Steady traffic of a project whose neighbour moves: reads and writes at a fixed rate, and how long they took in each phase. */
import { randomUUID } from "node:crypto"
import { loadavg } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import { fixed, quantile } from "./Figures.ts"

const requestsPerSecond = 60
/** Every third request is a write. */
const isWrite = (n: number) => n % 3 === 0

/** What the requests of a phase took, and the load average of the machine at its end. */
export interface Phase {
  readonly name: string
  readonly requests: number
  readonly failed: number
  readonly p95: number
  readonly load: number
}

/** Sends requests until it is stopped. Each counts from the time at which it was due, for the phase of that time. */
export const traffic = (url: string, token: string) => {
  const taken = new Map<string, Array<number>>()
  const failed = new Map<string, number>()
  const loads = new Map<string, number>()
  let phase = "before"
  let isOpen = true
  const request = async (n: number, due: number) => {
    const name = phase
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" }
    const answer = await fetch(`${url}/api/v1/developer/crm/deals${isWrite(n) ? "" : "?limit=20"}`, {
      headers: isWrite(n) ? { ...headers, "idempotency-key": `bench-${randomUUID()}` } : headers,
      ...(isWrite(n) ? { method: "POST", body: JSON.stringify({ title: "Difference engine" }) } : {})
    })
    await answer.text()
    taken.set(name, [...(taken.get(name) ?? []), performance.now() - due])
    if (!answer.ok) failed.set(name, (failed.get(name) ?? 0) + 1)
    loads.set(name, loadavg()[0] ?? Number.NaN)
  }
  const all = (async () => {
    const began = performance.now()
    const sent: Array<Promise<void>> = []
    for (let n = 0; isOpen; n++) {
      const due = began + (n * 1_000) / requestsPerSecond
      const early = due - performance.now()
      if (early > 0) await sleep(early)
      sent.push(request(n, due))
    }
    await Promise.all(sent)
  })()
  const phaseOf = (name: string, names: ReadonlyArray<string>): Phase => {
    const millis = names.flatMap((one) => taken.get(one) ?? [])
    return {
      name,
      requests: millis.length,
      failed: names.reduce((sum, one) => sum + (failed.get(one) ?? 0), 0),
      p95: quantile(millis, 0.95),
      load: Math.max(...names.map((one) => loads.get(one) ?? 0))
    }
  }
  return {
    enter: (name: string) => {
      phase = name
    },
    /** Ends the traffic. Returns its phases in their order, and those of the move together. */
    stop: async (others: ReadonlySet<string>) => {
      isOpen = false
      await all
      const names = [...taken.keys()]
      const moving = names.filter((name) => !others.has(name))
      return {
        phases: names.map((name) => phaseOf(name, [name])),
        during: phaseOf("during", moving)
      }
    }
  }
}

/** The row of a phase: its figures, and the ratio to what was before. */
export const rowOf = (records: number, { failed, load, name, p95, requests }: Phase, before: number) => [
  String(records),
  name,
  String(requests),
  String(failed),
  fixed(p95, 1),
  fixed(p95 / before, 2),
  fixed(load, 1)
]
