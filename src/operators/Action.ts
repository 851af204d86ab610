/** What an action of operators is: what it needs, asks, does and reports. `Actions.ts` has the table. */
import { Effect, Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { ServiceUnavailable } from "../api/Problems.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import type { Sender } from "../webhooks/address/Sender.ts"
import type { Mutations } from "../commands/Mutations.ts"
import type { Operator } from "../operating/Audit.ts"
import { decodeProjectId, type ProjectUnknown, type Refused } from "../operating/Refusals.ts"
import type { Notifier } from "../outbox/Outbox.ts"
import type { SecretBox } from "../secrets/SecretBox.ts"
import type { RecordKind } from "./History.ts"

/** What an action will do, shown before it is carried out. */
interface Question {
  readonly title: string
  readonly message: string
  readonly label: string
}

interface ActionReport {
  readonly title: string
  readonly message: string
  /** The document that the command prints with `--json`. */
  readonly document: object
  /** Texts by their name, which only the answer to the action shows. */
  readonly texts?: Readonly<Record<string, string>>
  /** The action was carried out, and its result is a failure, such as the answer 500 to a test event. */
  readonly isFailure?: boolean
}

type ActionError = ProjectUnknown | Refused | ServiceUnavailable | SqlError.SqlError | Schema.SchemaError
export type ActionServices = SqlClient.SqlClient | Mutations | Notifier | Operator | Sender | SecretBox

type Acting<A> = Effect.Effect<A, ActionError, ActionServices>
type Texts = Readonly<Record<string, Schema.Codec<unknown, string>>>

interface Definition<Fields extends Texts> {
  /** The command, and what its help says. Without them, the action is a button alone. */
  readonly command?: string
  readonly description?: string
  /** The kind of the record on whose page the console shows the outcome. A field of this name has the id of the record. */
  readonly target: RecordKind
  readonly fields: Fields
  readonly descriptions: { readonly [Name in keyof Fields]: string }
  readonly defaults?: { readonly [Name in keyof Fields]?: string }
  /** Present if the action ends or sends something that cannot be taken back. */
  readonly question?: (given: Given<Fields>) => Acting<Question>
  readonly run: (given: Given<Fields>) => Acting<ActionReport>
}

type Given<Fields extends Texts> = Schema.Struct<Fields>["Type"] & {
  readonly projectId: ProjectId
  /** 32 hexadecimal digits, equal if the confirmation of one question is sent twice. */
  readonly once: string
}

const decodeOnce = Schema.decodeEffect(Schema.String.check(Schema.isPattern(/^[0-9a-f]{32}$/)))

export type Action = ReturnType<typeof action>

export const action = <const Fields extends Texts>(definition: Definition<Fields>) => {
  const { defaults, descriptions, fields, question, run, ...named } = definition
  const decode = Schema.decodeUnknownEffect(Schema.Struct(fields), { errors: "all" })
  return {
    ...named,
    asks: question !== undefined,
    /** The fields in order. A field without a default is required. */
    fields: Object.entries(fields).map(([name, schema]) => ({
      name,
      schema,
      description: descriptions[name] ?? "",
      default: defaults?.[name]
    })),
    /** Reads the texts of the fields. Fails with `SchemaError` if one is missing or invalid. */
    on: Effect.fnUntraced(function* (project: string, once: string, texts: Readonly<Record<string, string>>) {
      const projectId = yield* decodeProjectId(project)
      const given = { ...(yield* decode({ ...defaults, ...texts })), projectId, once: yield* decodeOnce(once) }
      return { question: question?.(given), run: Effect.suspend(() => run(given)) }
    })
  }
}
