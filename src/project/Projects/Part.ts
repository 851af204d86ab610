/** A part of a project file: how the members of its records map to columns, for `project apply` and `project export`. */
import { Equal } from "effect"
import type { Columns } from "../../sql/Columns.ts"

export interface FileRecord {
  readonly id: string
  readonly [member: string]: unknown
}

/**
 * The table of a part, with a column for each member of a record. An apply keeps the stored value of an absent member. In
 * SQL, `file` is the record of the file, with `project_id` and `applied_at` (the time of the apply), and `old` the stored record.
 */
export interface Part<Member extends string = string> {
  readonly table: string
  readonly columns: Columns<Member>
  /** Columns of the key besides the id. */
  readonly key?: Columns
  /** A member whose values are unique in a project. */
  readonly unique?: NoInfer<Member>
  /** SQL for the defaults of members that a new record may omit. A member without a default gets NULL. */
  readonly initial?: { readonly [M in NoInfer<Member>]?: string }
  /** Members that an export omits, because they are secret or not part of a file. */
  readonly hidden?: ReadonlyArray<NoInfer<Member>>
  /** An SQL condition of the records that an export writes. Default: all. */
  readonly exported?: string
  /** Columns that the service sets, each with SQL for its value in a new record and in a changed record. */
  readonly derived?: Readonly<Record<string, { readonly created: string; readonly changed: string }>>
  readonly groups?: Readonly<Record<string, Group<NoInfer<Member>>>>
  readonly lists?: Readonly<Record<string, List>>
  /** Lists that an export reads, but another module stores. */
  readonly foreignLists?: Readonly<Record<string, List>>
}

/** A member that is one object in a file, and several members in the record that `flatten` returns. */
interface Group<Member extends string> {
  /** For each member of the object, the member of the record. */
  readonly members: Readonly<Record<string, Member>>
  /** The object that null in a file stands for. */
  readonly none: Readonly<Record<string, unknown>>
  /** Whether a given object replaces the whole stored object. Then absent members have the values of `none`. */
  readonly isValue?: boolean
}

/** A member that is a list, with rows in its own table. A given list replaces the stored list; an absent list keeps it. */
export interface List {
  readonly table: string
  /** The column, in the table of the list, that has the id of the record. */
  readonly owner: string
  /** The members of an item, all required. If there is only one, the item in a file is the value of this member. */
  readonly items: Columns
  /** Whether the order of items has no meaning. */
  readonly isSet?: boolean
}

/** Whether the items of a list are values and not objects. */
export const hasValues = ({ items }: List): boolean => Object.keys(items).length === 1

/** Converts a record of a file: the members of a group become members of the record, and `isSet` lists are sorted. */
export const flatten = ({ groups = {}, lists = {} }: Part, record: FileRecord): FileRecord => {
  const flat: Record<string, unknown> & FileRecord = { ...record }
  for (const [member, { isValue = false, members, none }] of Object.entries(groups)) {
    const given = record[member]
    delete flat[member]
    if (given === undefined) continue
    const object: Readonly<Record<string, unknown>> = { ...(isValue || given === null ? none : {}), ...Object(given) }
    for (const [inner, outer] of Object.entries(members)) flat[outer] = object[inner]
  }
  for (const [member, { isSet = false }] of Object.entries(lists)) {
    const given = record[member]
    if (isSet && Array.isArray(given)) flat[member] = given.toSorted()
  }
  return flat
}

/** Converts a stored record to a record of a project file, without its lists. */
export const nest = ({ groups = {} }: Part, record: FileRecord): FileRecord => {
  const file: Record<string, unknown> & FileRecord = { ...record }
  for (const [member, { members, none }] of Object.entries(groups)) {
    const object = Object.fromEntries(Object.entries(members).map(([inner, outer]) => [inner, record[outer]]))
    for (const outer of Object.values(members)) delete file[outer]
    file[member] = Equal.equals(object, none) ? null : object
  }
  return file
}
