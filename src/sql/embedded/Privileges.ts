/**
 * The user that PostgreSQL runs as. PostgreSQL refuses to run as root, so a process that runs as root starts it as another user.
 */
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { statSync } from "node:fs"
import * as Path from "node:path"
import { attempt, EmbeddedPostgresError } from "./Processes.ts"

interface Account {
  readonly uid: number
  readonly gid: number
}

export interface Privileges {
  /** Makes PostgreSQL's user the owner of a directory and its content. Does nothing if that user owns the directory already. */
  readonly give: (directory: string) => Effect.Effect<void, EmbeddedPostgresError>
  /** The words before a command that run it as PostgreSQL's user. Empty if PostgreSQL runs as the user of this process. */
  readonly prefix: ReadonlyArray<string>
  /** Whether PostgreSQL's user may enter a directory. */
  readonly mayEnter: (directory: string) => boolean
}

/**
 * Finds the user that runs PostgreSQL. It is the user of this process. If that is root, it is the first of these that exists:
 * - the owner of `data` (the directory of the cluster), unless that is root;
 * - `postgres`;
 * - `nobody`.
 *
 * Fails if this user cannot enter the directory above `data`, which exists.
 */
export const resolve = Effect.fnUntraced(function* (data: string): Effect.fn.Return<Privileges, EmbeddedPostgresError> {
  if (process.getuid?.() !== 0) return { give: () => Effect.void, prefix: [], mayEnter: () => true }
  const account = ownerOf(data) ?? accountNamed("postgres") ?? accountNamed("nobody")
  if (account === undefined) {
    return yield* failed(
      "PostgreSQL cannot run as root, and there is neither a user `postgres` nor `nobody` to run it as"
    )
  }
  const { gid, uid } = account
  const closed = yield* attempt(`Cannot examine ${Path.dirname(data)}`, () => closedAbove(account, Path.dirname(data)))
  if (closed !== undefined) {
    return yield* failed(
      `PostgreSQL cannot run as root, and the user ${uid} that runs it cannot enter ${closed}: set DATA_DIR to a folder ` +
        `elsewhere, such as /var/lib/developer-api, or open the folder (chmod o+x ${closed})`
    )
  }
  return {
    // `chown` changes the directory itself last. So after an interruption root still owns the directory, and the next call
    // repeats the change.
    give: (directory) =>
      attempt(`Cannot give ${directory} to user ${uid}`, () => {
        if (statSync(directory).uid !== uid) execFileSync("chown", ["-Rh", `${uid}:${gid}`, directory])
      }),
    prefix: ["setpriv", `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups", "--"],
    mayEnter: (directory) => closedAbove(account, directory) === undefined
  }
})

const failed = (message: string) => new EmbeddedPostgresError({ reason: "Failed", message })

const ownerOf = (data: string): Account | undefined => {
  const owner = statSync(data, { throwIfNoEntry: false })
  return owner === undefined || owner.uid === 0 ? undefined : owner
}

// `id` also finds users of directory services such as LDAP, which are not in /etc/passwd.
const accountNamed = (name: string): Account | undefined => {
  const id = (option: string) => Number(execFileSync("id", [option, name], { stdio: ["ignore", "pipe", "ignore"] }))
  try {
    return { uid: id("-u"), gid: id("-g") }
  } catch {
    return undefined
  }
}

/** Returns the first directory of a path that the account may not enter; undefined if it may enter all of them. */
const closedAbove = (account: Account, directory: string): string | undefined => {
  const { gid, mode, uid } = statSync(directory)
  const traverse = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001
  const parent = Path.dirname(directory)
  const above = parent === directory ? undefined : closedAbove(account, parent)
  return above ?? ((mode & traverse) === 0 ? directory : undefined)
}
