/** What operators write into forms, and what the console says of it. */
import { assert, it } from "../support/Vitest.ts"
import { csrfOf, fillProject, request, signIn, startConsole } from "./Console.support.ts"

it.live("takes a pace of digits alone, and names a campaign that does not exist in its own words", function* () {
  const server = yield* startConsole()
  const { projectId } = yield* fillProject(server)
  const headers = { cookie: (yield* signIn(server)).cookie }
  const csrf = csrfOf((yield* request(server, "/console", { headers })).text)
  const post = (action: string, fields: Readonly<Record<string, string>>) => {
    const body = new URLSearchParams({ csrf, project: projectId, ...fields })
    return request(server, `/console/${action}`, { method: "POST", headers, body })
  }
  const period = { since: "2026-01-01T00:00:00Z", until: "2099-01-01T00:00:00Z", status: "all", type: "" }
  const paced = (pace: string) => post("replay", { installation: "shop", ...period, pace })
  for (const pace of ["0x10", "1e3", " 5", "5 ", "+5", "1.0", "", "0", "1001", "9".repeat(400)]) {
    const { headers: answered, status } = yield* paced(pace)
    const query = new URLSearchParams(answered.get("location")?.split("?")[1])
    assert.deepStrictEqual([status, query.get("faulty"), query.get("pace") ?? ""], [303, "pace", pace])
  }
  for (const pace of ["1", "1000", "007"]) assert.include((yield* paced(pace)).text, "Start this replay?", pace)

  const lost = yield* post("campaign-command", { id: "cmp_none", operation: "pause" })
  assert.strictEqual(lost.status, 409)
  assert.include(lost.text, `Project &quot;${projectId}&quot; has no campaign &quot;cmp_none&quot;`)
  assert.notInclude(lost.text, "GET ")
})
