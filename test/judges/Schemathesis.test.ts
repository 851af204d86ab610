/** Requests that Schemathesis generates from the document of a running service: valid ones, wrong ones, and sequences of them. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { beforeEach } from "vitest"
import { samples } from "../contract/Samples.ts"
import { python, pythonMissing } from "../support/Judges.ts"
import { temporaryDirectory } from "../support/Process.ts"
import { demoText } from "../support/Projects.ts"
import { startServer } from "../support/TestServer.ts"

const run = promisify(execFile)

/**
 * The only check that is off. It allows a valid request no refusal but 401, 403, 404, 409 and 429. By contract, versions refuse with
 * 412, and cursors, an expected project and members that depend on each other with 400.
 */
const unfit = "positive_data_acceptance"

const options = [
  "--generation-deterministic",
  "--max-examples",
  "5",
  "--continue-on-failure",
  "--warnings",
  "off",
  "--suppress-health-check",
  "too_slow",
  "--no-color"
]

describe("requests by Schemathesis", () => {
  beforeEach(({ skip }) => {
    if (pythonMissing !== undefined) skip(pythonMissing)
  })

  it.live(
    "get the answers that the document describes, and never a 5xx",
    function* () {
      // Without workers, as the URLs of webhooks are generated too.
      const { apply, issue, url } = yield* startServer({}, "api")
      // The demo has the records that the examples of the document name.
      const { project, ...parts } = JSON.parse(demoText)
      yield* apply(project.id, { project, ...parts })
      const token = yield* issue(project.id)
      const { stdout } = yield* Effect.promise(async () => {
        const cwd = await temporaryDirectory()
        const args = ["run", `${url}/openapi.json`, "--exclude-checks", unfit, ...options]
        return run(join(python, "schemathesis"), [...args, "--header", `Authorization: Bearer ${token}`], {
          cwd
        }).catch((failed: { readonly stdout: string }) => failed)
      })
      assert.include(stdout, `Tested: ${Object.keys(samples).length}\n`)
      assert.match(stdout, /\b(\d+) generated, \1 passed/)
    },
    300_000
  )
})
