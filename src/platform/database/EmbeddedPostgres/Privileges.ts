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
}

/**
 * Finds the user that runs PostgreSQL: the user of this process or, if that is root, the first of:
 * - the owner of `data`, the directory of the cluster, if `data` exists and its owner is not root;
 * - the user `postgres` or, if there is none, `nobody`.
 *
 * `programs` is the directory with the programs of PostgreSQL.
 */
export const resolve = Effect.fnUntraced(function* (
  data: string,
  programs: string
): Effect.fn.Return<Privileges, EmbeddedPostgresError> {
  if (process.getuid?.() !== 0) return { give: () => Effect.void, prefix: [] }
  const account = ownerOf(data) ?? accountNamed("postgres") ?? accountNamed("nobody")
  if (account === undefined) {
    return yield* new EmbeddedPostgresError({
      reason: "Failed",
      message: "PostgreSQL cannot run as root, and there is neither a user `postgres` nor `nobody` to run it as"
    })
  }
  const isReachable = yield* attempt(`Cannot examine ${Path.dirname(data)} and ${programs}`, () =>
    [Path.dirname(data), programs].every((directory) => canReach(account, directory))
  )
  const user = [`--reuid=${account.uid}`, `--regid=${account.gid}`, "--clear-groups"]
  return {
    // `chown` changes the directory itself last. So after an interruption root still owns the directory, and the next call
    // repeats the change.
    give: (directory) =>
      attempt(`Cannot give ${directory} to user ${account.uid}`, () => {
        if (statSync(directory).uid === account.uid) return
        execFileSync("chown", ["-Rh", `${account.uid}:${account.gid}`, directory])
      }),
    prefix: ["setpriv", ...user, ...(isReachable ? [] : throughClosedDirectories), "--"]
  }
})

// Lets PostgreSQL's user reach the checkout and the data below a directory that is closed to other users (/root, `mktemp -d`).
// The capability dac_override allows this. The weaker dac_read_search would be enough, but containers often lack it. Only an
// ambient capability survives exec. PostgreSQL looks for its own program with access(2), which ignores the capabilities of a
// non-root user unless no_setuid_fixup is set.
const throughClosedDirectories = [
  "--inh-caps=+dac_override",
  "--ambient-caps=+dac_override",
  "--securebits=+no_setuid_fixup"
]

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

/** Whether the account may pass through a directory and the directories above it. */
const canReach = (account: Account, directory: string): boolean => {
  const { gid, mode, uid } = statSync(directory)
  const traverse = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001
  const parent = Path.dirname(directory)
  return (mode & traverse) !== 0 && (parent === directory || canReach(account, parent))
}
