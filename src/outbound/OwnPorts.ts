/** The ports of this service on this machine, which tenants must not have called. */
import { Effect, Option, Redacted } from "effect"
import { networkInterfaces } from "node:os"
import type { Settings } from "../platform/Settings.ts"

const listening = new Set<number>()

/** Notes that this process listens on a port, until the scope ends. */
export const listensOn = (port: number) =>
  Effect.acquireRelease(
    Effect.sync(() => listening.add(port)),
    () => Effect.sync(() => listening.delete(port))
  )

/**
 * Returns whether a port is one on which this process listens, or which the settings name: another process of this machine may be the
 * one that listens there.
 */
export const ownPorts = (settings: Settings["Service"]): ((port: number) => boolean) => {
  const urls = [settings.databaseUrl, settings.databaseDirectUrl, settings.redisUrl].flatMap(Option.toArray)
  const named = new Set([
    settings.port,
    ...[settings.adminPort, settings.metricsPort].flatMap(Option.toArray),
    ...urls.map((url) => {
      const { port, protocol } = new URL(Redacted.value(url))
      return Number(port || (protocol.startsWith("redis") ? 6379 : 5432))
    })
  ])
  return (port) => named.has(port) || listening.has(port)
}

/** Returns the networks whose addresses reach this machine: its own addresses, loopback, and what systems take for loopback. */
export const ownNetworks = (): ReadonlyArray<string> => [
  "0.0.0.0/8",
  "127.0.0.0/8",
  "::/128",
  "::1/128",
  ...Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).map(({ address }) => address))
]
