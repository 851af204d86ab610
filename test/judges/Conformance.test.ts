/** The conformance scenarios of the Model Context Protocol for servers, of each set that a revision requires. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { World } from "../contract/Samples.ts"
import { startAgentProxy } from "../support/AgentProxy.ts"
import { TestServer } from "../support/TestServer.ts"

const conformance = join(import.meta.dirname, "node_modules/@modelcontextprotocol/conformance/dist/index.js")

const words = (text: string) => text.trim().split(/\s+/)

/** The checks that the service does not pass, by the reason: it has tools alone, one for each of its operations. */
const inapplicable = {
  "they call tools and read schemas that only the fixtures of the scenarios have": words(`
    tools-call-simple-text tools-call-image tools-call-audio tools-call-embedded-resource tools-call-mixed-content tools-call-error
    tools-call-with-progress json-schema-2020-12-tool-found sep-2322-ignore-unexpected-params sep-2322-result-type-included
    sep-2575-server-rejects-undeclared-capability sep-2575-missing-capability-http-400
    sep-2243-server-no-xmcp-tool sep-2243-server-decode-base64 sep-2243-server-validate-param-match
    sep-2243-server-reject-invalid-param-chars sep-2243-server-reject-param-mismatch`),
  "no prompts, resources, completions or log messages are declared": words(`
    completion-complete logging-set-level tools-call-with-logging sep-2575-server-no-log-without-loglevel
    prompts-list prompts-get-simple prompts-get-with-args prompts-get-embedded-resource prompts-get-with-image
    resources-list resources-read-text resources-read-binary resources-templates-read resources-subscribe resources-unsubscribe
    sep-2549-prompts-list-caching-hints sep-2549-resources-list-caching-hints sep-2549-resources-templates-list-caching-hints
    sep-2164-error-code sep-2164-data-uri`),
  "clients are asked nothing: no elicitation, sampling or roots": words(`
    tools-call-sampling tools-call-elicitation elicitation-sep1034-general elicitation-sep1330-general
    sep-2575-http-server-no-independent-requests-on-stream sep-2322-elicitation-incomplete sep-2322-sampling-incomplete
    sep-2322-list-roots-incomplete sep-2322-request-state-incomplete sep-2322-multiple-inputs-incomplete sep-2322-multi-round-r1
    sep-2322-non-tool-incomplete sep-2322-missing-response-rerequests sep-2322-reject-tampered-state
    sep-2322-respect-client-capabilities`),
  "there are no sessions, so that any replica answers": words(`
    server-sse-multiple-streams-session server-sse-polling-session`)
} as const

/** Some of the checks that have to pass: of each generation, and of what protects a server on the loopback. */
const applicable = words(`
  server-initialize ping tools-list wire-schema-valid localhost-host-rebinding-rejected server-accepts-multiple-post-streams
  sep-2575-server-implements-discover sep-2575-http-server-header-mismatch-400 sep-2549-tools-list-caching-hints`)

/** Scenarios of an extension that is not declared: tasks, which outlive a call. */
const isExtension = (scenario: string) => scenario.startsWith("server-tasks-")

interface Check {
  readonly id: string
  readonly status: string
}

/** Runs all scenarios that a revision requires; returns their checks. */
const run = (url: string, revision: string) =>
  Effect.gen(function* () {
    const directory = yield* Effect.acquireRelease(
      Effect.promise(() => mkdtemp(join(tmpdir(), "developer-api-conformance-"))),
      (directory) => Effect.promise(() => rm(directory, { recursive: true }))
    )
    const args = [conformance, "server", "--url", `${url}/mcp`, "--requirements", revision, "--output-dir", directory]
    // Its exit code counts the inapplicable checks as failures.
    yield* Effect.callback<void>((resume) => {
      execFile(process.execPath, args, { maxBuffer: 1e8 }, () => resume(Effect.void))
    })
    const scenarios = yield* Effect.promise(() => readdir(directory))
    const checks = yield* Effect.forEach(
      scenarios.filter((scenario) => !isExtension(scenario)),
      (scenario) => Effect.promise(() => readFile(join(directory, scenario, "checks.json"), "utf8"))
    )
    return checks.flatMap((text): ReadonlyArray<Check> => JSON.parse(text))
  }).pipe(Effect.scoped)

layer(World.layer, { excludeTestServices: true })("the endpoint of agents", (it) => {
  it.effect("passes every conformance check of both generations that applies to a server of tools", function* () {
    const { url } = yield* TestServer
    const { own } = yield* World
    // The scenarios cannot send a credential.
    const proxy = yield* startAgentProxy({ replicas: [url], token: own.token })
    const [older, newer] = yield* Effect.forEach(["2025-11-25", "2026-07-28"], (revision) => run(proxy.url, revision))
    const checks = [...(older ?? []), ...(newer ?? [])]
    const idsOf = (...statuses: ReadonlyArray<string>) =>
      new Set(checks.filter(({ status }) => statuses.includes(status)).map(({ id }) => id))
    assert.deepStrictEqual([...idsOf("FAILURE", "WARNING")].toSorted(), Object.values(inapplicable).flat().toSorted())
    const passed = idsOf("SUCCESS")
    assert.isAtLeast(passed.size, 35, [...passed].join(" "))
    for (const id of applicable) assert.isTrue(passed.has(id), id)
  })
})
