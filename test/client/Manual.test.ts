/** What the README of the client says of the API, compared with the API. Pack.test.ts runs its programs. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { CampaignCommand } from "../../src/api/campaigns/Commands.ts"
import { hasMember } from "../../src/client/DeveloperApi.ts"
import { declared } from "./Walk.support.ts"

const manual = readFileSync(join(import.meta.dirname, "../../src/client/README.md"), "utf8").replaceAll(/\s+/g, " ")

/** Returns the names in the sentence that starts with `start`, up to its full stop or to a semicolon. */
const namesAfter = (start: string) =>
  /^[^.;]*/
    .exec(manual.split(start)[1] ?? "")?.[0]
    .matchAll(/`(\w+)`/g)
    .map(([, name = ""]) => name)
    .toArray()

describe("the README of the client", () => {
  it("lists the groups of the operations", () => {
    assert.deepStrictEqual(namesAfter("The groups are "), [...new Set(declared.map(({ group }) => group))])
  })

  it("names the commands of a campaign that take an expected version", () => {
    assert.deepStrictEqual(
      namesAfter("Its `version` is the `expectedVersion` of "),
      CampaignCommand.members
        .filter((command) => hasMember(command, "expectedVersion"))
        .map(({ fields }) => fields.operation.literal)
    )
  })
})
