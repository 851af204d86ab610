/**
 * Skips interim answers with status 100. A client must accept them even if it did not ask for them (RFC 9110, section 15.2), but
 * undici closes the connection when it receives one.
 */
import type { Socket } from "node:net"

/** Maximum size of an interim answer in bytes. A longer one is passed on to undici. */
const limit = 16_384
const interim = /^HTTP\/1\.[01] 100[^\r\n]*(?:\r|$)/
const start = "HTTP/1.1 100"
const end = "\r\n\r\n"
/** `statusAt` is the position of the status in an answer. An interim answer has the character `one` there. */
const statusAt = 9
const one = 0x31

/** Whether a non-empty text begins like an interim answer, as far as the text goes, and is shorter than `limit`. */
const isPart = (text: string) => text.length < limit && interim.test(text + start.slice(text.length))

/**
 * Removes complete interim answers from the front. The rest is `held` if it may be the beginning of another interim answer,
 * otherwise `passed`.
 */
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
 * Makes a socket's `read` skip interim answers. Returns a function that has to be called before each request, when the next bytes
 * are the beginning of an answer.
 */
export const skipInterim = (socket: Socket): (() => void) => {
  const read = socket.read.bind(socket)
  let awaiting = true
  let held = Buffer.alloc(0)
  socket.read = (size?: number) => {
    const chunk: unknown = read(size)
    if (!awaiting || !Buffer.isBuffer(chunk)) return chunk
    if (held.byteLength === 0 && chunk.byteLength > statusAt && chunk[statusAt] !== one) {
      awaiting = false
      return chunk
    }
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
