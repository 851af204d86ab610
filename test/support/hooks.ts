/** Setup of every test file: runs the finalizers that its tests add. Vitest runs this file again for each test file. */
import { afterAll, afterEach, beforeEach } from "vitest"
import { height, unwind } from "./Finalizers.ts"

let before = 0

beforeEach(() => {
  before = height()
})
afterEach(() => unwind(before), 120_000)
afterAll(() => unwind(0), 120_000)
