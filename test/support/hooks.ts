/** Setup of every test file: runs the finalizers that its tests add. Vitest runs this file again for each test file. */
import { afterAll, afterEach, beforeEach } from "vitest"
import { finalizerCount, runFinalizers } from "./Finalizers.ts"

let before = 0

beforeEach(() => {
  before = finalizerCount()
})
afterEach(() => runFinalizers(before), 120_000)
afterAll(() => runFinalizers(0), 120_000)
