/** A client in Python that `openapi-python-client` generates from the document of a running service, judged by `mypy`. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { beforeEach } from "vitest"
import { python, pythonMissing } from "../support/Judges.ts"
import { temporaryDirectory } from "../support/Process.ts"
import { startServer } from "../support/TestServer.ts"

const run = promisify(execFile)

/** Creates a client record, reads it, and prints its name and the type of the answer to an unknown id. */
const program = `import sys, uuid
from judged import AuthenticatedClient
from judged.api.crm_clients import create_client, get_client
from judged.models import DeveloperClient, DeveloperClientCreate, DeveloperMutationResponse

api = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
created = create_client.sync(
    client=api, body=DeveloperClientCreate(display_name="Kim"), idempotency_key=str(uuid.uuid4())
)
assert isinstance(created, DeveloperMutationResponse)
read = get_client.sync(created.resource_id, client=api)
assert isinstance(read, DeveloperClient)
print(read.display_name, type(get_client.sync("nobody", client=api)).__name__)
`

describe("a client by openapi-python-client", () => {
  beforeEach(({ skip }) => {
    if (pythonMissing !== undefined) skip(pythonMissing)
  })

  it.live(
    "is generated without a warning, passes mypy, and creates and reads a record",
    function* () {
      const { seed, url } = yield* startServer({}, "api")
      const { token } = yield* seed()
      const printed = yield* Effect.promise(async () => {
        const cwd = await temporaryDirectory()
        await writeFile(join(cwd, "program.py"), program)
        await writeFile(join(cwd, "options.yaml"), "post_hooks: []\n")
        const options = ["--config", "options.yaml", "--output-path", "judged", "--meta", "none", "--fail-on-warning"]
        await run(join(python, "openapi-python-client"), ["generate", "--url", `${url}/openapi.json`, ...options], {
          cwd
        })
        await run(join(python, "mypy"), ["--strict", "judged", "program.py"], { cwd })
        return run(join(python, "python"), ["program.py", url, token], { cwd })
      })
      assert.strictEqual(printed.stdout, "Kim ClientNotFound\n")
    },
    120_000
  )
})
