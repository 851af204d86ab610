/** A client in Go that `oapi-codegen` generates from the document of a running service. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { copyFile, mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { beforeEach } from "vitest"
import { judges, python, pythonMissing } from "../support/Judges.ts"
import { temporaryDirectory } from "../support/Process.ts"
import { startServer } from "../support/TestServer.ts"

const run = promisify(execFile)

/** The options that the manual of the client names. */
const options = `package: api
generate: { models: true, client: true }
output: api/api.gen.go
output-options: { skip-prune: true }
`

/** Creates a client record, reads it, and prints its name and the code of the problem of an unknown id. */
const program = `package main

import (
	"context"
	"fmt"
	"judges/api"
	"net/http"
	"os"
)

// No operation names the body of a webhook.
func title(event api.DeveloperDealCreatedEvent) string { return event.Data.Deal.Title }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ctx := context.Background()
	client := must(api.NewClientWithResponses(os.Args[1], api.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("authorization", "Bearer "+os.Args[2])
		return nil
	})))
	params := api.CreateClientParams{IdempotencyKey: "robin-0001"}
	created := must(client.CreateClientWithResponse(ctx, &params, api.DeveloperClientCreate{DisplayName: "Robin"}))
	read := must(client.GetClientWithResponse(ctx, created.JSON201.ResourceId, &api.GetClientParams{}))
	refused := must(client.GetClientWithResponse(ctx, "nobody", &api.GetClientParams{}))
	fmt.Println(read.JSON200.DisplayName, refused.ApplicationproblemJSON404.Code)
}
`

describe("a client by oapi-codegen", () => {
  beforeEach(({ skip }) => {
    if (pythonMissing !== undefined) skip(pythonMissing)
  })

  it.live(
    "compiles, and creates and reads a record",
    function* () {
      const { seed, url } = yield* startServer({}, "api")
      const { token } = yield* seed()
      const printed = yield* Effect.promise(async () => {
        const cwd = await temporaryDirectory()
        const go = (...args: ReadonlyArray<string>) =>
          run(join(python, "go"), args, { cwd, env: { ...process.env, HOME: join(judges, ".go") } })
        for (const file of ["go.mod", "go.sum"]) await copyFile(join(import.meta.dirname, file), join(cwd, file))
        await mkdir(join(cwd, "api"))
        await writeFile(join(cwd, "main.go"), program)
        await writeFile(join(cwd, "options.yaml"), options)
        await writeFile(join(cwd, "openapi.json"), await (await fetch(`${url}/openapi.json`)).text())
        await go("tool", "oapi-codegen", "-config", "options.yaml", "openapi.json")
        return go("run", ".", url, token)
      })
      assert.strictEqual(printed.stdout, "Robin client_not_found\n")
    },
    120_000
  )
})
