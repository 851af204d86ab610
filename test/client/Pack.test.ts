/** The package of `npm pack`, installed in an empty directory; and the programs of the client's README, against `npm start`. */
import { readdirSync, readFileSync } from "node:fs"
import { cp, mkdir, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { assert } from "@effect/vitest"
import { Webhook } from "standardwebhooks"
import { beforeAll, beforeEach, describe, it } from "vitest"
import { createClient } from "../../src/client/PromiseClient.ts"
import {
  checkout,
  freePort,
  runToEnd,
  type Service,
  spawn,
  startService,
  temporaryDirectory
} from "../support/Process.ts"
import { judges, judgesMissing } from "../support/Judges.ts"
import { assertMatches } from "../support/Matches.ts"

// Compiling and copying `effect` takes long on a loaded machine.
const timeout = 300_000

/** The compiler whose language service answers what an editor shows. */
const compiler = join(judges, "typescript")

/** Prints what an editor shows for the last names of these expressions: the texts, and the types. */
const hovers = `
  const [, , compiler, file, ...asked] = process.argv
  const ts = require(compiler)
  const options = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, strict: true, types: [] }
  const service = ts.createLanguageService({
    ...ts.sys,
    useCaseSensitiveFileNames: () => true,
    getScriptFileNames: () => [file],
    getScriptVersion: () => "1",
    getScriptSnapshot: (name) => ts.sys.fileExists(name) ? ts.ScriptSnapshot.fromString(ts.sys.readFile(name)) : undefined,
    getCurrentDirectory: () => __dirname,
    getCompilationSettings: () => options,
    getDefaultLibFileName: ts.getDefaultLibFilePath
  })
  const text = ts.sys.readFile(file)
  const shown = asked.map((name) => service.getQuickInfoAtPosition(file, text.indexOf(name) + name.length - 1))
  const print = (part) => shown.map((info) => ts.displayPartsToString(info?.[part]))
  console.log(JSON.stringify({ texts: print("documentation"), types: print("displayParts") }))
`

let home: string

const run = async (file: string, ...args: ReadonlyArray<string>) => {
  const { code, stderr, stdout } = await runToEnd(file, args)
  assert.deepStrictEqual({ code, stderr: code === 0 ? "" : stderr + stdout }, { code: 0, stderr: "" })
  return stdout
}

const fileOf = async (name: string, text: string) => {
  const path = join(home, name)
  await writeFile(path, text)
  return path
}

beforeAll(async () => {
  const directory = await temporaryDirectory()
  // The programs of the README compile the client of the checkout at the same time.
  const copy = await temporaryDirectory()
  for (const part of ["package.json", "tsconfig.json", "LICENSE", "src"]) {
    await cp(join(checkout, part), join(copy, part), { recursive: true })
  }
  await symlink(join(checkout, "node_modules"), join(copy, "node_modules"))
  const pack = ["pack", "--silent", "--workspace", "developer-api", "--pack-destination", directory]
  await run("npm", ...pack, "--prefix", copy)
  const [tarball = ""] = readdirSync(directory)
  home = join(directory, "home")
  await mkdir(home)
  await fileOf("package.json", JSON.stringify({ name: "home", private: true, type: "module" }))
  const options = ["--offline", "--legacy-peer-deps", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", home]
  await run("npm", "install", ...options, join(directory, tarball))
  // Copies, not links: from a link, the imports of `effect` would find the checkout's packages.
  await cp(join(checkout, "node_modules/effect"), join(home, "node_modules/effect"), { recursive: true })
}, timeout)

describe("the packed client", { timeout }, () => {
  it("contains the compiled client, nothing of the server, and no dependencies", () => {
    const installed = join(home, "node_modules/developer-api")
    const files = readdirSync(installed, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(installed.length + 1))
    assert.deepStrictEqual(
      files.filter((file) => !/^dist\/(client\.|webhooks\.|client\/|api\/)/.test(file)).toSorted(),
      ["LICENSE", "README.md", "package.json"]
    )
    const manifestOf = (path: string) => JSON.parse(readFileSync(join(path, "package.json"), "utf8"))
    const manifest = manifestOf(installed)
    const { version } = manifestOf(join(home, "node_modules/effect"))
    assertMatches(manifest, { name: "developer-api", peerDependencies: { effect: `^${version}` } })
    assert.notProperty(manifest, "dependencies")
    assert.deepStrictEqual(Object.keys(manifest.exports), ["./client", "./webhooks"])
    assert.deepStrictEqual(
      readdirSync(join(home, "node_modules")).filter((name) => !name.startsWith(".")),
      ["developer-api", "effect"]
    )
  })

  /** Returns the URLs of the modules that an export of the package loads. */
  const graphOf = async (name: string): Promise<ReadonlyArray<string>> => {
    const script = await fileOf(
      "graph.js",
      `import { registerHooks } from "node:module"
       const urls = []
       registerHooks({ resolve: (specifier, context, next) => {
         const resolved = next(specifier, context)
         urls.push(resolved.url)
         return resolved
       } })
       await import("developer-api/${name}")
       console.log(JSON.stringify(urls))`
    )
    return JSON.parse(await run(process.execPath, script))
  }
  const packages = () => `file://${home}/node_modules/`

  it("verifies webhooks with less than 20 kB of modules, and without effect", async () => {
    const urls = await graphOf("webhooks")
    assert.isTrue(
      urls.every((url) => url.startsWith(`${packages()}developer-api/dist/`)),
      urls.join(" ")
    )
    const size = urls.reduce((sum, url) => sum + readFileSync(new URL(url)).length, 0)
    console.log(size, "bytes: developer-api/webhooks")
    assert.isBelow(size, 20_000)
  })

  it("imports effect alone and no node: module", async () => {
    const urls = await graphOf("client")
    assert.isAbove(urls.length, 20)
    assert.deepStrictEqual(
      urls.filter(
        (url) => !url.startsWith(`${packages()}effect/`) && !url.startsWith(`${packages()}developer-api/dist/`)
      ),
      []
    )
  })

  it("has types that compile strictly, its own declarations included", async () => {
    const program = (title: string) => `
        import { createClient, DeveloperApi, isProblem, verifyWebhook, type WebhookEvent } from "developer-api/client"
        import { Effect, Stream } from "effect"
        import * as plain from "developer-api/webhooks"
        const api = createClient({ baseUrl: new URL("https://api.example.com"), token: "dk_1" })
        const { body, headers } = await api.deals.getDeal({ params: { dealId: "deal_1" } })
        export const etag: string = headers.etag
        export const title: ${title} = body.title
        export const failure = (error: unknown) => (isProblem(error, "version_conflict") ? error.currentVersion : null)
        export const titles = Stream.map(
          Stream.unwrap(Effect.map(DeveloperApi, ({ deals }) => deals.listDeals.items({ query: { limit: 10 } }))),
          (deal) => deal.title
        )
        export const titleOf = (event: plain.WebhookEvent) =>
          event.type === "crm.deal.created.v1" ? [event.data.deal.title, event.data.deal.clientId ?? null] : []
        export const event: Effect.Effect<WebhookEvent, { readonly reason: string }> =
          verifyWebhook({ body: "{}", headers: new Headers(), secrets: ["whsec_AAAA"] })`
    const options = {
      target: "es2022",
      module: "nodenext",
      lib: ["es2024", "dom", "dom.iterable", "esnext.disposable"],
      types: [],
      strict: true,
      skipLibCheck: false,
      noEmit: true
    }
    await fileOf("good.ts", program("string"))
    await fileOf("bad.ts", program("number"))
    await fileOf("tsconfig.json", JSON.stringify({ compilerOptions: options, files: ["good.ts", "bad.ts"] }))
    const { code, stdout } = await runToEnd(join(checkout, "node_modules/.bin/tsc"), [
      "--project",
      home,
      "--pretty",
      "false"
    ])
    assert.notStrictEqual(code, 0)
    assert.deepStrictEqual(
      stdout
        .trimEnd()
        .split("\n")
        .map((line) => line.replace(/^.*\//, "")),
      ["bad.ts(8,22): error TS2322: Type 'string' is not assignable to type 'number'."]
    )
  })
})

it("the texts of the packed client are the manual of the client, without links that lead out of the package", () => {
  const readme = readFileSync(join(home, "node_modules/developer-api/README.md"), "utf8")
  assert.match(readme, /^# The client\n/)
  assert.notMatch(readme, /\]\((?!https?:|#)/)
})

describe("what editors show for the packed client", { timeout }, () => {
  beforeEach(({ skip }) => {
    if (judgesMissing !== undefined) skip(judgesMissing)
  })

  it("describes operations, members of answers and of requests, problems and events", async () => {
    const program = await fileOf(
      "hovers.ts",
      `import { createClient, DeveloperApi, isProblem, type WebhookEvent } from "developer-api/client"
         import { Effect } from "effect"
         const api = createClient({ baseUrl: "https://api.example.com", token: "dk_1" })
         export const calls = Effect.map(DeveloperApi, (effects) => [effects.notes.createNote, effects.deals.listDeals.items])
         const { body: deal, headers } = await api.deals.getDeal({ params: { dealId: "deal_1" } })
         const { body: page } = await api.deals.listDeals({ query: { status: "won" } })
         for await (const listed of api.deals.listDeals.items()) console.log(listed.stageId)
         const { body: preview } = await api.preview.previewImport({ params: { installationId: "ins_shop" } })
         await api.deals.createDeal({ payload: { title: "", currency: "EUR" }, headers: { "idempotency-key": "k" } })
         const versionOf = (error: unknown) => (isProblem(error, "version_conflict") ? error.currentVersion : undefined)
         export const shown = [deal.amountMinor, headers.etag, page.nextCursor, page.items[0]?.closedAt, versionOf]
         const reasonsOf = (failed: unknown) =>
           isProblem(failed, "deal_not_found") ? [failed.status, failed.title, failed.detail, failed.instance] : []
         export const counts = [preview.counts, reasonsOf]
         export const idOf = (event: WebhookEvent) =>
           event.type === "crm.deal.created.v1" ? event.data.deal.clientId : event.id`
    )
    // The compiler of the service has no language service that a program can use yet.
    const script = await fileOf("hovers.cjs", hovers)
    const texts = {
      "effects.notes.createNote": /^Write a note on a deal\. \w/,
      "api.deals.getDeal": /^Get a deal\. \w/,
      "api.deals.listDeals.items": /^The records of all pages .*`for await`/,
      "effects.deals.listDeals.items": /^The records of all pages/,
      "deal.amountMinor": /^The amount in minor units of `currency`, .*; null if there is no amount\.$/,
      "headers.etag": /^The version of the record/,
      "page.nextCursor": /next page/,
      "page.items[0]?.closedAt": /^When the deal was won or lost/,
      "listed.stageId": /^The id of the stage/,
      "preview.counts": /\w/,
      "params: { dealId": /^The id of the deal/,
      "query: { status": /\w/,
      currency: /^The currency of `amountMinor`/,
      "error.currentVersion": /\w/,
      "failed.status": /^The HTTP status/,
      "failed.title": /one fixed sentence/,
      "failed.detail": /^What happened in this request/,
      "failed.instance": /identifies the request/,
      "deal.clientId": /^The id of the client/,
      "event.id": /installation/
    }
    const asked = Object.keys(texts)
    const shown: { readonly texts: ReadonlyArray<string>; readonly types: ReadonlyArray<string> } = JSON.parse(
      await run(process.execPath, script, compiler, program, ...asked)
    )
    assertMatches(shown.texts, Object.values(texts))
    // Requests are shown by their members, not by the schemas that declare them.
    assert.deepStrictEqual(
      shown.types.filter((type) => /Struct<|QueryOf</.test(type)),
      []
    )
  })

  it("describes every member of the operations and of the problems", () => {
    const declarations = ["Api", "Problems"].flatMap((file) =>
      readFileSync(join(home, `node_modules/developer-api/dist/api/${file}.d.ts`), "utf8").split("\n")
    )
    const members = declarations.flatMap((line, index) =>
      /^ +(?:readonly )?"?[\w-]+"?\??: /.test(line) ? [index] : []
    )
    assert.isAbove(members.length, 300)
    assert.deepStrictEqual(
      members.filter((index) => !declarations[index - 1]?.trimStart().startsWith("/** ")).map((at) => declarations[at]),
      []
    )
  })
})

describe("the example programs of the README", { timeout }, () => {
  const manual = readFileSync(join(checkout, "src/client/README.md"), "utf8")
  const [compile = "", ...programs] = manual
    .matchAll(/```sh\n(.*?)```/gs)
    .map(([, block = ""]) => block)
    .toArray()

  let service: Service
  let token: string

  beforeAll(async () => {
    service = await startService({ env: { DATA_DIR: join(await temporaryDirectory(), "data") } })
    token = /dk_\w+/.exec(service.stdout())?.[0] ?? ""
  }, timeout)

  /** Returns a block as a reader would paste it, with other addresses. */
  const pasted = (block: string, port = 0) =>
    block.replaceAll("http://127.0.0.1:3000", service.url).replaceAll("listen(8080", `listen(${port}`)

  it("are all covered by these tests", () => {
    assert.include(compile, "client.tgz")
    assert.lengthOf(programs, 4)
  })

  it("run with Promises", async () => {
    const [, prepack] = /`(npm run [^`]* prepack [^`]*)`/.exec(manual) ?? []
    const script = `${prepack}\n${pasted(programs[0] ?? "")}`
    const { code, stderr, stdout } = await runToEnd("bash", ["-c", script], { TOKEN: token })
    assert.deepStrictEqual(
      { code, stderr, lines: stdout.trimEnd().split("\n") },
      {
        code: 0,
        stderr: "",
        lines: [
          'Robin Example is at version "2"',
          "Open: A second grinder",
          "Open: Espresso machines for the harbour",
          "404: The project has no such deal."
        ]
      }
    )
  })

  it("sync a shop, again and again", async () => {
    for (const _ of [1, 2]) {
      const { code, stderr, stdout } = await runToEnd("bash", ["-c", pasted(programs[1] ?? "")], { TOKEN: token })
      assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
      const lines = stdout.trimEnd().split("\n")
      assert.strictEqual(lines[0], "shop-order-7: created true")
      assert.include(lines, "Order 7 is at version 1")
    }
  })

  it("run with Effect", async () => {
    const { code, stderr, stdout } = await runToEnd("bash", ["-c", pasted(programs[2] ?? "")], { TOKEN: token })
    assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
    assert.match(
      stdout,
      /^Order 7: open\nA second grinder: open\nEspresso machines for the harbour: open\nSix cargo bicycles: won\n/
    )
  })

  it("receive webhooks", async () => {
    const port = await freePort()
    const api = createClient({ baseUrl: service.url, token })
    const { body } = await api.webhooks.configureWebhook({
      params: { installationId: "ins_shop" },
      payload: {
        endpointUrl: `http://127.0.0.1:${port}/hooks`,
        eventTypes: ["crm.deal.created.v1", "crm.deal.stage_changed.v1"],
        expectedVersion: null
      }
    })
    const secret = body.signingSecret ?? ""
    const receiver = spawn("bash", ["-c", `exec ${pasted(programs[3] ?? "", port).replace(/^SECRET=\S+ /, "")}`], {
      SECRET: secret
    })
    await receiver.prints(/waiting for events/)
    const { body: created } = await api.deals.createDeal({ payload: { title: "Ten more cups" } })
    await receiver.prints(/^crm\.deal\.created\.v1: Ten more cups$/m)
    await api.deals.patchDeal({ params: { dealId: created.resourceId }, payload: { stageId: "stage_offer" } })
    await receiver.prints(/^crm\.deal\.stage_changed\.v1: Ten more cups$/m)
    const late = { type: "crm.deal.updated.v1", data: { deal: { id: created.resourceId, title: "Late", version: 1 } } }
    const text = JSON.stringify(late)
    const at = new Date()
    const answer = await fetch(`http://127.0.0.1:${port}/hooks`, {
      method: "POST",
      headers: {
        "webhook-id": "dlv_late",
        "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
        "webhook-signature": new Webhook(secret).sign("dlv_late", at, text)
      },
      body: text
    })
    assert.strictEqual(answer.status, 204)
    await receiver.prints(/^Not newer than what is stored: crm\.deal\.updated\.v1$/m)
    const forged = await fetch(`http://127.0.0.1:${port}/hooks`, { method: "POST", body: "{}" })
    assert.strictEqual(forged.status, 400)
    await receiver.prints(/^Refused: header_missing$/m)
  })
})
