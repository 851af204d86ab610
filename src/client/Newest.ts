/** Keeps the newest version of each record that events bring, in whatever order they arrive. */

/** The versions that are known, by `client/<id>` and `deal/<id>`: a `Map`, or something that stores them for longer. */
export interface Versions {
  readonly get: (record: string) => number | undefined
  readonly set: (record: string, version: number) => unknown
}

interface Kept {
  readonly id: string
  /** The event of a record that is gone has none. */
  readonly version?: number
}

const isKept = (value: unknown): value is Kept => typeof value === "object" && value !== null && "id" in value

/**
 * Makes a function that returns whether to keep the record of an event: `data.client` or `data.deal` has a higher version than all
 * events before. Returns true for each event without such a record. No event is newer than one that a record is gone.
 */
export const keepNewest =
  (versions: Versions = new Map<string, number>()) =>
  ({ data }: { readonly data: object }): boolean => {
    for (const kind of ["client", "deal"]) {
      const record: unknown = Reflect.get(data, kind)
      if (!isKept(record)) continue
      const { id, version = Infinity } = record
      if (version <= (versions.get(`${kind}/${id}`) ?? 0)) return false
      versions.set(`${kind}/${id}`, version)
    }
    return true
  }
