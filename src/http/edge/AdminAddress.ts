/**
 * The address of the admin server, and the names by which it is called. With the embedded database, a file under `DATA_DIR` contains
 * the address of the console, so that commands find it.
 */
import { Effect, FileSystem, Option, Path, Result } from "effect"
import { NetAddress } from "effect/net"

/** The loopback address by which to reach a server that listens on all addresses of the host. */
const everywhere: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" }

export const adminUrl = (adminHost: string, port: number): string => {
  const host = everywhere[adminHost] ?? adminHost
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`
}

const fileUnder = (dataDir: string) => Effect.map(Path.Path, (path) => path.join(dataDir, "console-url"))

/** Keeps the URL of the admin server in a file while the scope is open. The service also starts if the file can't be written. */
export const keep = Effect.fnUntraced(function* (dataDir: string, url: string) {
  const fs = yield* FileSystem.FileSystem
  const file = yield* fileUnder(dataDir)
  yield* Effect.acquireRelease(Effect.ignore(fs.writeFileString(file, `${url}\n`, { mode: 0o600 })), () =>
    // Removes the file only if it still has this URL. Another process may have written its own URL since.
    Effect.ignore(
      Effect.flatMap(read(dataDir), (kept) => Effect.when(fs.remove(file), Effect.succeed(Option.contains(kept, url))))
    )
  )
})

export const read = Effect.fnUntraced(function* (dataDir: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* Effect.option(Effect.map(fs.readFileString(yield* fileUnder(dataDir)), (text) => text.trim()))
})

const authority = /^(?:\[(?<address>[\da-f:.]*:[\da-f:.]*)\]|(?<name>[^:]*))(?::\d*)?$/

/** Whether a `Host` header, with or without a port, is one of these names and addresses. */
export const isOneOf = (host: string, names: ReadonlyArray<string>): boolean => {
  const { address, name } = authority.exec(host.toLowerCase())?.groups ?? {}
  return names.some((each) => each.toLowerCase() === (address ?? name))
}

/** Whether a `Host` header, with or without a port, is a name or an address of the loopback. */
export const isLoopbackHost = (host: string): boolean => {
  const { address, name = "" } = authority.exec(host.toLowerCase())?.groups ?? {}
  const plain = name.replace(/\.$/, "")
  if (plain === "localhost" || plain.endsWith(".localhost")) return true
  const parsed: Result.Result<NetAddress.IpAddress, unknown> =
    address === undefined ? NetAddress.ipv4FromString(plain) : NetAddress.ipv6FromString(address)
  return Result.isSuccess(parsed) && NetAddress.isLoopback(parsed.success)
}
