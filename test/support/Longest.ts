/** The order of test files. Vitest starts the largest first; those below are small, and take long nevertheless. */
import { BaseSequencer, type TestSpecification } from "vitest/node"

const slow =
  /\/(Schemathesis|Readme|Reference|Runner\.fairness|Overview|Watch|Worker|Move|Database|Idle|Mix|Memory|Move\.ends|Deliveries|EmbeddedPostgres|plans\/Statements)\.test\.ts$/

const rank = ({ moduleId }: TestSpecification) => (slow.test(moduleId) ? 0 : 1)
const groupOf = ({ project }: TestSpecification) => project.config.sequence.groupOrder

export class LongestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>) {
    const sorted = await super.sort(files)
    return sorted.sort((one, other) => groupOf(one) - groupOf(other) || rank(one) - rank(other))
  }
}
