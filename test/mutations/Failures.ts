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

const isTimeout = (messages: ReadonlyArray<string>) => messages.every((text) => /^(Test|Hook) timed out in/.test(text))

const failuresOf = (module: TestModule): ReadonlyArray<Failure> => {
  const failure = (title: string, messages: ReadonlyArray<string>): ReadonlyArray<Failure> => {
    const [message] = messages
    const file = module.relativeModuleId
    return message === undefined ? [] : [{ file, title, message, isTimeout: isTimeout(messages) }]
  }
  const errorsOf = (suite: TestModule | TestSuite) => suite.errors().map(({ message }) => message)
  const tests = [...module.children.allTests("failed")].flatMap((test) =>
    failure(test.fullName, test.result().errors?.map(({ message }) => message) ?? [])
  )
  const suites = [...module.children.allSuites()].flatMap((suite) => failure(suite.fullName, errorsOf(suite)))
  return [...tests, ...suites, ...failure("", errorsOf(module))]
}

export default class Failures implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>): void {
    console.log(`\n${JSON.stringify(modules.flatMap(failuresOf))}`)
  }
}
