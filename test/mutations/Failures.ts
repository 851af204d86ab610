/** Reports a run of tests in one line: its failures as JSON, one for each failed test or hook. */
import type { Reporter, TestModule, TestSuite } from "vitest/node"

/** What failed in a file of tests. */
export interface Failure {
  /** Path of the file, relative to the root of the project. */
  readonly file: string
  readonly title: string
  readonly message: string
  /** Whether the test or hook reached the limit of Vitest. */
  readonly isTimeout: boolean
}

const isTimeout = (messages: ReadonlyArray<string>) =>
  messages.length > 0 && messages.every((text) => /^(Test|Hook) timed out in/.test(text))

const failuresOf = (module: TestModule): ReadonlyArray<Failure> => {
  const failure = (title: string, messages: ReadonlyArray<string>): Failure => ({
    file: module.relativeModuleId,
    title,
    message: messages[0] ?? "",
    isTimeout: isTimeout(messages)
  })
  const errorsOf = (suite: TestModule | TestSuite) => suite.errors().map(({ message }) => message)
  const tests = [...module.children.allTests("failed")].map((test) =>
    // What a test fails with may be no error, and have no message.
    failure(test.fullName, test.result().errors?.map(({ message = "" }) => message) ?? [])
  )
  const suites = [...module.children.allSuites(), module]
    .filter((suite) => suite.errors().length > 0)
    .map((suite) => failure("fullName" in suite ? suite.fullName : "", errorsOf(suite)))
  return [...tests, ...suites]
}

export default class Failures implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>): void {
    console.log(`\n${JSON.stringify(modules.flatMap(failuresOf))}`)
  }
}
