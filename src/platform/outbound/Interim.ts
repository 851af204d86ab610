/**
 * Passes over interim answers with status 100. A client has to take them even if it asked for none (RFC 9110, section
 * 15.2); undici ends the connection.
 */
import type { Socket } from "node:net"

/** Bytes of one interim answer; beyond that it is left to the parser. */
const limit = 16_384
const interim = /^HTTP\/1\.[01] 100[^\r\n]*(?:\r|$)/
const start = "HTTP/1.1 100"
const end = "\r\n\r\n"

/** Returns whether a text that is not empty is the begin of an interim answer, or may become that. */
const isPart = (text: string) => text.length < limit && interim.test(text + start.slice(text.length))

/** Removes whole interim answers from the front; `held` is what may be the begin of another. */
const split = (bytes: Buffer): { readonly passed: Buffer; readonly held: Buffer } => {
  const text = bytes.toString("latin1")
  let at = 0
  for (;;) {
    const rest = text.slice(at)
    if (rest === "" || !isPart(rest)) return { passed: bytes.subarray(at), held: Buffer.alloc(0) }
    const stop = rest.indexOf(end)
    if (stop < 0) return { passed: Buffer.alloc(0), held: bytes.subarray(at) }
    at += stop + end.length
  }
}

/**
 * Has a socket's `read` skip interim answers. Returns a function to call before each request: the first bytes that follow
 * are those of an answer.
 */
export const skipInterim = (socket: Socket): (() => void) => {
  const read = socket.read.bind(socket)
  let awaiting = true
  let held = Buffer.alloc(0)
  socket.read = (size?: number) => {
    const chunk: unknown = read(size)
    if (!awaiting || !Buffer.isBuffer(chunk)) return chunk
    const next = split(held.byteLength === 0 ? chunk : Buffer.concat([held, chunk]))
    held = Buffer.from(next.held)
    if (next.passed.byteLength === 0) return socket.read(size)
    awaiting = false
    return next.passed
  }
  return () => {
    awaiting = true
  }
}
