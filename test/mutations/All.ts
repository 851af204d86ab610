/** All mutations. */
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { api } from "./api.ts"
import { client } from "./client.ts"
import { domains } from "./domains.ts"
import { engine } from "./engine.ts"
import type { Mutation } from "./Mutation.ts"
import { platform } from "./platform.ts"
import { project } from "./project.ts"
import { server } from "./server.ts"

const root = join(import.meta.dirname, "../..")

export const mutations: ReadonlyArray<Mutation> = [platform, client, project, api, domains, engine, server].flat()

export const pathOf = (test: string) => `test/${test}.test.ts`

/** Returns whether the mutation still changes its source, and its tests exist. */
export const applies = ({ file, from, tests }: Mutation) => {
  const path = join(root, "src", file)
  return (
    existsSync(path) &&
    readFileSync(path, "utf8").includes(from) &&
    tests.every((test) => existsSync(join(root, pathOf(test))))
  )
}
