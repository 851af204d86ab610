/** Finds all faults of all parts of a request, for one problem (contract §1). */
import { Effect, Schema } from "effect"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import { faultDetail, groupFaults, type LocatedFault } from "../../api/schema/Locations.ts"
import { ValidationFailed } from "../../api/Problems.ts"
import { faultsOfBody, faultsOfSlot, strict, unknownMembers } from "../../api/schema/Shape.ts"
import { isUnsafe } from "../../platform/UnsafeText.ts"
import type { Body } from "./BodyFaults.ts"

/** The parts of a request, over HTTP or as a tool call, before they are decoded. */
export interface Parts {
  readonly params: Readonly<Record<string, unknown>>
  readonly query: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, unknown>>
  /** Undefined if the operation takes no body. */
  readonly body: Body | undefined
  /** Faults that were found while the parts were read. The decoders can't find these. */
  readonly faults: ReadonlyArray<LocatedFault>
}

/** Compiles the functions that find the faults of requests of an operation. */
export const faultsOf = (endpoint: HttpApiEndpoint.Top) => {
  const query = endpoint.query === undefined ? undefined : Schema.toCodecArrayFromSingle(endpoint.query)
  const bodySchemas = [...endpoint.payload.values()].flatMap(({ schemas }) => schemas)

  /**
   * Lists the faults that the decoders do not see: the given `faults`, those of the body's text, and query parameters if the operation
   * takes none.
   */
  const textFaults = ({ body, faults, query: sent }: Parts): ReadonlyArray<LocatedFault> =>
    concatenate(
      faults,
      query === undefined ? unknownMembers("query", sent) : none,
      body === undefined ? none : body.faults
    )

  /** Gathers every fault. A fault in `faults` replaces the faults that decoding reports at the same location. */
  const refuse = (raw: Parts, faults: ReadonlyArray<LocatedFault>) => {
    const { body } = raw
    const located = new Set(faults.map(([location]) => location))
    const found = [
      ...faultsOfSlot("path", endpoint.params, raw.params, lenient),
      ...faultsOfSlot("header", endpoint.headers, raw.headers, lenient),
      ...faultsOfSlot("query", query, raw.query, strict),
      ...(body?.isDecodable === true ? bodySchemas.flatMap((schema) => faultsOfBody(schema, body.value)) : [])
    ]
    const grouped = groupFaults([
      ...faults,
      ...found.filter(([location]) => !located.has(location) && !isUnsafe(location))
    ])
    return Effect.fail(new ValidationFailed({ detail: faultDetail(grouped), errors: grouped.errors }))
  }

  return { refuse, textFaults }
}

/** The options for path parameters and headers. Names that are not in the schema are ignored. */
const lenient = { errors: "all" } as const

export const none: ReadonlyArray<LocatedFault> = []

/** The lists are almost always empty. Then no new list is made. */
export const concatenate = (...lists: ReadonlyArray<ReadonlyArray<LocatedFault>>): ReadonlyArray<LocatedFault> =>
  lists.every(({ length }) => length === 0) ? none : lists.flat()
