/** The campaigns' part of any project file. */
import * as fc from "fast-check"
import { byId, id, maybe, record, text } from "./Arbitraries.support.ts"

export const segmentsOf = (clientIds: ReadonlyArray<string>) =>
  fc.uniqueArray(
    record(
      {
        id,
        name: text(160),
        description: maybe(text(1000)),
        clientIds: fc.shuffledSubarray([...clientIds])
      },
      ["id", "name", "clientIds"]
    ),
    byId
  )

export const templates = fc.uniqueArray(
  fc.record({ id, version: fc.integer({ min: 1, max: 3 }), name: text(160), body: text(4096) }),
  { selector: ({ id, version }) => JSON.stringify([id, version]), maxLength: 6 }
)
