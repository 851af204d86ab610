/** A small disk for a service: a file system in memory that only the service and its PostgreSQL see, and that ends with them. */
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { open, rm } from "node:fs/promises"
import * as Path from "node:path"
import { beforeEach } from "vitest"
import * as Postmaster from "../../src/platform/EmbeddedPostgres/Postmaster.ts"
import { defer } from "../support/Finalizers.ts"
import { postmasterOf, type Running, spawn, temporaryDirectory } from "../support/Process.ts"

/** Runs a program in a mount namespace of its own; others than root need a user namespace for it. */
const inNamespace = (command: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...(process.getuid?.() === 0 ? [] : ["--user", "--map-current-user", "--keep-caps"]),
  "--mount",
  ...command
]

const mounting = (directory: string, mebibytes: number, command: ReadonlyArray<string>) =>
  inNamespace([
    "sh",
    "-c",
    `mount -t tmpfs -o size=${mebibytes}m,mode=755 tmpfs "$0" && exec "$@"`,
    directory,
    ...command
  ])

/** Skips the tests of the current suite where no file system may be mounted. */
export const requiresMount = (): void => {
  beforeEach(({ skip }) => {
    const { status } = spawnSync("unshare", mounting("/tmp", 1, ["true"]), { stdio: "ignore" })
    if (status !== 0) {
      skip("no file system may be mounted here; run the tests as root, or permit unprivileged user namespaces")
    }
  })
}

export interface SmallDisk {
  readonly service: Running
  /** The data directory, as others than the service see it. */
  readonly directory: string
  /** Writes a file until no byte more fits. */
  readonly fill: () => Promise<void>
  /** Removes that file. */
  readonly free: () => Promise<void>
  /** Sends SIGTERM to the service. */
  readonly shutDown: () => void
}

/** Starts a service whose data directory is a file system of some MiB. */
export const startOnSmallDisk = async (
  mebibytes: number,
  env: Readonly<Record<string, string>>
): Promise<SmallDisk> => {
  const mountPoint = await temporaryDirectory()
  const service = spawn("unshare", mounting(mountPoint, mebibytes, [process.execPath, "src/main.ts"]), {
    PORT: "0",
    DATA_DIR: mountPoint,
    ...env
  })
  const directory = `/proc/${service.pid}/root${mountPoint}`
  // A session of the test keeps the server up when the service ends, and then its directory is out of sight.
  let postmaster: number | undefined
  const findPostmaster = () => void (postmaster = postmasterOf(directory) ?? postmaster)
  defer(async () => {
    findPostmaster()
    service.kill("SIGKILL")
    await service.exited
    if (postmaster !== undefined) await Effect.runPromise(Postmaster.stop(postmaster))
  })
  const filler = Path.join(directory, "filler")
  return {
    service,
    directory,
    fill: async () => {
      const file = await open(filler, "a")
      try {
        // The last bytes of a file system go in small pieces.
        for (const piece of [Buffer.alloc(1 << 20, 1), Buffer.alloc(1 << 12, 1)]) {
          while ((await file.write(piece)).bytesWritten === piece.length);
        }
      } catch (error) {
        if (!(error instanceof Error && "code" in error && error.code === "ENOSPC")) throw error
      } finally {
        await file.close()
      }
    },
    free: () => rm(filler),
    shutDown: () => {
      findPostmaster()
      service.kill("SIGTERM")
    }
  }
}
