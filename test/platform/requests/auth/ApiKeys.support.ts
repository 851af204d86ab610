/** The service `ApiKeys` on a test database, and functions that issue and list keys. */
import { Duration, Effect, Layer, Option } from "effect"
import type { Scope } from "../../../../src/api/Access.ts"
import { MemberId, type ProjectId } from "../../../../src/api/schema/Ids.ts"
import { ApiKeys } from "../../../../src/platform/requests/auth/ApiKeys.ts"
import { TestDatabase } from "../../../support/TestDatabase.ts"

export const services = ApiKeys.layerOf(Option.none()).pipe(Layer.provideMerge(TestDatabase.layer))

export const anna = MemberId.make("anna")
export const days = Duration.days

export const issue = Effect.fnUntraced(function* (
  projectId: ProjectId,
  options: { name?: string; scopes?: ReadonlyArray<Scope>; expiresIn?: Duration.Duration; member?: MemberId } = {}
) {
  const keys = yield* ApiKeys
  return yield* keys.issue({
    projectId,
    name: options.name ?? "ci",
    scopes: options.scopes ?? ["crm.clients.read"],
    expiresIn: options.expiresIn ?? days(90),
    memberId: Option.fromUndefinedOr(options.member)
  })
})

export const list = (projectId: ProjectId) =>
  Effect.flatMap(ApiKeys, (keys) =>
    Effect.map(keys.list(projectId, { after: null, limit: 1_000 }), ({ items }) => items)
  )
export const later = (date: Date, duration: Duration.Duration) => new Date(date.getTime() + Duration.toMillis(duration))
