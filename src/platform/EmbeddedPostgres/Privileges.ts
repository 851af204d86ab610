/** The user that PostgreSQL runs as. It refuses to run as root, so root runs it as another user. */
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { lchownSync, readdirSync, statSync } from "node:fs"
import * as Path from "node:path"
import { attempt, type Command, EmbeddedPostgresError } from "./Processes.ts"

type Account = NonNullable<Command["account"]>

export interface Privileges {
  /** Makes PostgreSQL's user the owner of a directory and its content, unless it is that of the directory. */
  readonly give: (directory: string) => Effect.Effect<void, EmbeddedPostgresError>
  readonly command: (file: string, args: ReadonlyArray<string>) => Command
}

/**
 * Finds the user that runs PostgreSQL:
 *  - the owner of `data`, the directory of the cluster, if that exists;
 *  - otherwise the user `postgres`, if there is one;
 *  - otherwise the user `nobody`.
 *
 * `programs` is the directory with the programs of PostgreSQL.
 */
export const resolve = Effect.fnUntraced(function* (
  data: string,
  programs: string
): Effect.fn.Return<Privileges, EmbeddedPostgresError> {
  if (process.getuid?.() !== 0) return { give: () => Effect.void, command: (file, args) => ({ file, args }) }
  const account = ownerOf(data) ?? accountNamed("postgres") ?? accountNamed("nobody")
  if (account === undefined) {
    return yield* new EmbeddedPostgresError({
      reason: "Failed",
      message: "PostgreSQL cannot run as root, and there is neither a user `postgres` nor `nobody` to run it as"
    })
  }
  const give = (directory: string) =>
    attempt(`Cannot give ${directory} to user ${account.uid}`, () => chownAll(directory, account))
  if (process.platform !== "linux") return { give, command: (file, args) => ({ file, args, account }) }
  const directories = [Path.dirname(data), programs]
  const reachable = yield* attempt(`Cannot examine ${directories.join(" and ")}`, () =>
    directories.every((directory) => canReach(account, directory))
  )
  const options = [`--reuid=${account.uid}`, `--regid=${account.gid}`, "--clear-groups"]
  const prefix = [...options, ...(reachable ? [] : throughClosedDirectories), "--"]
  return { give, command: (file, args) => ({ file: "setpriv", args: [...prefix, file, ...args] }) }
})

// A checkout below a directory that is closed to others (/root, `mktemp -d`) hides the programs and the data from that
// user. The capability dac_override alone passes it; containers have it where they lack dac_read_search. PostgreSQL
// looks for its own program with access(2), which drops the capabilities of a non-root user unless no_setuid_fixup is
// set; capabilities other than the ambient one are lost at exec anyway.
const throughClosedDirectories = [
  "--inh-caps=+dac_override",
  "--ambient-caps=+dac_override",
  "--securebits=+no_setuid_fixup"
]

const ownerOf = (data: string): Account | undefined => {
  const owner = statSync(data, { throwIfNoEntry: false })
  return owner === undefined || owner.uid === 0 ? undefined : { uid: owner.uid, gid: owner.gid }
}

// `id` also queries directories such as LDAP, unlike /etc/passwd.
const accountNamed = (name: string): Account | undefined => {
  const id = (option: string) => Number(execFileSync("id", [option, name], { stdio: ["ignore", "pipe", "ignore"] }))
  try {
    return { uid: id("-u"), gid: id("-g") }
  } catch {
    return undefined
  }
}

// The directory itself comes last: while root owns it, an interrupted change is repeated.
const chownAll = (directory: string, { gid, uid }: Account) => {
  if (statSync(directory).uid === uid) return
  for (const name of readdirSync(directory, { recursive: true, encoding: "utf8" })) {
    lchownSync(Path.join(directory, name), uid, gid)
  }
  lchownSync(directory, uid, gid)
}

/** Whether the account may pass through a directory and those above it. */
const canReach = (account: Account, directory: string): boolean => {
  const { gid, mode, uid } = statSync(directory)
  const traverse = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001
  const parent = Path.dirname(directory)
  return (mode & traverse) !== 0 && (parent === directory || canReach(account, parent))
}
