/** The real service, in this process, on its own port and a fresh database. */
import { ConfigProvider, Context, Duration, Effect, Layer, Redacted } from "effect"
import { HttpServer } from "effect/http"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { type Scope, scopes } from "../../src/api/Access.ts"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { issueKey, revokeKey } from "../../src/http/auth/ApiKeys.ts"
import { Operator } from "../../src/operating/Audit.ts"
import type { ProjectFile } from "../../src/project/ProjectFile.ts"
import { applyProject } from "../../src/project/Projects.ts"
import { application, type Role } from "../../src/service/Serve.ts"
import { type Answer, type Request, send, sendBytes } from "./ContractHttp.ts"
import { assertDocumented } from "./Documented.ts"
import { databaseClock } from "./Claims.ts"
import { makeDatabase } from "./TestDatabase.ts"

type File = (typeof ProjectFile)["Encoded"]

/** The members of a project file, all optional. */
export type Parts = Omit<File, "project"> & { readonly project?: Partial<File["project"]> }

/** A rate limit that no test reaches unintentionally. */
const plenty = { limit: 1_000_000, windowSeconds: 1 }

/** A project, and a token with every scope in it. */
export interface Seeded {
  readonly projectId: string
  readonly token: string
}

/** Environment variables of the service; with `DATABASE_URL` it does not get a new database. */
export type Environment = Readonly<Record<string, string>>

export const secretKey = Buffer.alloc(32, 7).toString("base64")

/** Starts the service; it ends with the scope. */
export const startServer = Effect.fnUntraced(function* (environment: Environment = {}, role: Role = "all") {
  const databaseUrl = environment["DATABASE_URL"] ?? Redacted.value(yield* makeDatabase())
  const provider = ConfigProvider.fromUnknown({
    PORT: "0",
    LOG_LEVEL: "none",
    SECRET_KEY: secretKey,
    ...environment,
    DATABASE_URL: databaseUrl
  })
  const layer = application(role).pipe(Layer.provide(Layer.merge(ConfigProvider.layer(provider), databaseClock)))
  // A separate memo map, so that two servers of one test share nothing.
  const context = yield* Layer.buildWithMemoMap(layer, yield* Layer.makeMemoMap, yield* Effect.scope)
  const sql = Context.get(context, SqlClient.SqlClient)
  const url = HttpServer.formatAddress(Context.get(context, HttpServer.HttpServer).address)

  /** Applies a project file; the project's name is its id, and its rate limits are wide unless the file sets them. */
  const apply = (projectId: string, { project, ...parts }: Parts = {}) =>
    applyProject(
      JSON.stringify({
        ...parts,
        project: {
          id: projectId,
          name: projectId,
          rateLimits: { read: plenty, write: plenty, messages: plenty },
          ...project
        }
      })
    ).pipe(Effect.provideContext(context), Effect.orDie)

  /** Issues a key and returns its token, by default with every scope, for an hour, without a member. */
  const issue = (
    projectId: string,
    options: {
      readonly scopes?: ReadonlyArray<Scope>
      readonly expiresIn?: Duration.Input
      readonly memberId?: string
    } = {}
  ) =>
    issueKey({
      projectId: ProjectId.make(projectId),
      name: "test",
      scopes: options.scopes ?? scopes,
      expiresIn: Duration.fromInputUnsafe(options.expiresIn ?? "1 hour"),
      member: options.memberId ?? null
    }).pipe(
      Effect.provideContext(context),
      Effect.map(({ token }) => Redacted.value(token)),
      Effect.orDie
    )

  return {
    url,
    databaseUrl,
    sql,
    apply,
    issue,
    /** Revokes the key of a token. */
    revoke: (token: string) =>
      revokeKey(token.slice(3, 15)).pipe(
        Effect.provideService(Operator, { actor: "test" }),
        Effect.provideContext(context),
        Effect.orDie
      ),
    /** Creates a project from the parts of a file, and a token for it. */
    seed: Effect.fnUntraced(function* (parts?: Parts): Effect.fn.Return<Seeded> {
      const projectId = `prj_${randomBytes(6).toString("hex")}`
      yield* apply(projectId, parts)
      return { projectId, token: yield* issue(projectId) }
    }),
    /** Sends a request; asserts that the answer matches the OpenAPI document. */
    send: (request: Request): Effect.Effect<Answer> =>
      Effect.tap(send(url, request), (answer) => Effect.sync(() => assertDocumented(request, answer))),
    sendBytes: (bytes: string | Uint8Array, more?: string): Effect.Effect<string> => sendBytes(url, bytes, more)
  }
})

export class TestServer extends Context.Service<TestServer, Effect.Success<ReturnType<typeof startServer>>>()(
  "developer-api-service/test/support/TestServer"
) {
  /** Requires the live clock: `layer(TestServer.layer(), { excludeTestServices: true })`. */
  static readonly layer = (environment?: Environment, role?: Role) =>
    Layer.effect(TestServer, startServer(environment, role))
}
