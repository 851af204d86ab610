/** What an exchange keeps of an answer. */
import { assert, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { makeConnections } from "../../src/outbound/Connections.ts"
import { destinationOf, exchange } from "../../src/outbound/Exchange.ts"
import { answering } from "../support/Endpoints.ts"

it.live("an answer is a copy of its body, which holds nothing of what the socket has read beside it", function* () {
  const extension = "extension".repeat(1_000)
  const hook = yield* answering(
    "HTTP/1.1 200 OK",
    "transfer-encoding: chunked",
    "",
    `2;${extension}`,
    "ok",
    "0",
    "",
    ""
  )
  const { body } = yield* exchange(
    makeConnections(() => Effect.succeed(["127.0.0.1"])),
    { to: destinationOf(new URL(`http://127.0.0.1:${hook.port}/`)), headers: {}, body: "", bodyLimit: 1_024 }
  )
  assert.strictEqual(Buffer.from(body).toString(), "ok")
  assert.notInclude(Buffer.from(body.buffer).toString("latin1"), extension.slice(-100))
})
