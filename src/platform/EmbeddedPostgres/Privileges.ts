import { Effect } from "effect"
import * as ChildProcess from "node:child_process"
import { lchown, readdir, stat } from "node:fs/promises"
import * as Path from "node:path"
import { promisify } from "node:util"
import type { Binaries } from "./Binaries.ts"
import { attempt, EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"
import type { Account, Command } from "./Processes.ts"

/** The user that PostgreSQL runs as. */
export interface Privileges {
  /** Makes PostgreSQL's user the owner of a directory and its content. */
  readonly give: (directory: string) => Effect.Effect<void, EmbeddedPostgresError>
  /** The same, where root owns it again, for example after a restored backup. */
  readonly reclaim: (directory: string) => Effect.Effect<void, EmbeddedPostgresError>
  readonly command: (file: string, args: ReadonlyArray<string>) => Command
}

const asCurrentUser: Privileges = {
  give: () => Effect.void,
  reclaim: () => Effect.void,
  command: (file, args) => ({ file, args })
}

/**
 * Resolves the user. PostgreSQL refuses to run as root, so root runs it as another user; all others run it as
 * themselves.
 */
export const resolve = Effect.fnUntraced(function* (options: {
  readonly directory: string
  readonly data: string
  readonly binaries: Binaries
}): Effect.fn.Return<Privileges, EmbeddedPostgresError> {
  if (process.getuid?.() !== 0) return asCurrentUser
  const owner = yield* ownerOf(options.data)
  const account = owner ?? (yield* accountNamed("postgres")) ?? (yield* accountNamed("nobody"))
  if (account === undefined) {
    return yield* new EmbeddedPostgresError({
      reason: "Failed",
      message: "PostgreSQL cannot run as root, and there is neither a user `postgres` nor `nobody` to run it as"
    })
  }
  const give = (directory: string) =>
    attempt(`Cannot give ${directory} to user ${account.uid}`, () => chownAll(directory, account))
  const reclaim = owner === undefined ? give : () => Effect.void
  if (process.platform !== "linux") {
    return { give, reclaim, command: (file, args) => ({ file, args, account }) }
  }
  const reachable =
    (yield* canReach(account, options.directory)) && (yield* canReach(account, options.binaries.directory))
  const prefix = [
    `--reuid=${account.uid}`,
    `--regid=${account.gid}`,
    "--clear-groups",
    ...(reachable ? [] : throughClosedDirectories),
    "--"
  ]
  return { give, reclaim, command: (file, args) => ({ file: "setpriv", args: [...prefix, file, ...args] }) }
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

const ownerOf = (data: string) =>
  Effect.promise(async (): Promise<Account | undefined> => {
    const owner = await stat(data).catch(() => undefined)
    return owner === undefined || owner.uid === 0 ? undefined : { uid: owner.uid, gid: owner.gid }
  })

const execFile = promisify(ChildProcess.execFile)

// `id` also queries directories such as LDAP, unlike /etc/passwd.
const accountNamed = (name: string) =>
  Effect.promise(async (): Promise<Account | undefined> => {
    const ask = async (what: string) => Number((await execFile("id", [what, name])).stdout)
    return Promise.all([ask("-u"), ask("-g")]).then(
      ([uid, gid]) => ({ uid, gid }),
      () => undefined
    )
  })

// The directory itself comes last: while root owns it, an interrupted change is repeated.
const chownAll = async (directory: string, { uid, gid }: Account) => {
  const names = await readdir(directory, { recursive: true })
  await Promise.all(names.map((name) => lchown(Path.join(directory, name), uid, gid)))
  await lchown(directory, uid, gid)
}

const canReach = (account: Account, directory: string): Effect.Effect<boolean, EmbeddedPostgresError> =>
  attempt(`Cannot examine ${directory}`, async () => {
    for (let path = directory; ; path = Path.dirname(path)) {
      const { uid, gid, mode } = await stat(path)
      const traverse = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001
      if ((mode & traverse) === 0) return false
      if (path === Path.dirname(path)) return true
    }
  })
