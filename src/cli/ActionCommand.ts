/** Makes the command of an action (`project/Actions.ts`). */
import { Data, Effect, Layer } from "effect"
import { Command, Flag } from "effect/cli"
import { SqlClient } from "effect/sql"
import { Sender } from "../integrations/endpoints/Sender.ts"
import { makeMutationClient, Mutations } from "../commands/Mutations.ts"
import { ApiKeys } from "../http/auth/ApiKeys.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { type Action, newOnce } from "../project/Action.ts"
import { type ActionName, actions } from "../project/Actions.ts"
import * as Flags from "./Flags.ts"
import { onMigratedDatabase } from "./OnDatabase.ts"
import { answer, cli, confirm, isOnTerminal } from "./Output.ts"

class NotDone extends Data.TaggedError("NotDone")<{ readonly message: string }> {}

/** Mutations on the connection of a command. */
export const mutations = Layer.effect(
  Mutations,
  Effect.map(SqlClient.SqlClient, (sql) => makeMutationClient({ sql, reads: sql, permits: 1 }))
)

const onServices = <A, E, R>(command: Effect.Effect<A, E, R>) =>
  command.pipe(
    Effect.provide([mutations, Sender.layerOfSettings, SecretBox.layerOfSettings, ApiKeys.layer]),
    onMigratedDatabase
  )

const flagOf = ({ default: usual, description, name, schema }: Action["fields"][number]) => {
  const flag = Flags.checkedFlag(name, schema).pipe(Flag.withMetavar(name.toUpperCase()))
  if (usual === undefined) return flag.pipe(Flag.withDescription(`${description} (required)`))
  const texts = flag.pipe(Flag.withDescription(usual === "" ? description : `${description}; ${usual} if not given`))
  return texts.pipe(
    Flag.atLeast(0),
    Flag.map((texts) => (texts.length === 0 ? usual : texts.join(",")))
  )
}

const confirmation = {
  yes: Flags.toggle("yes", "Do not ask for confirmation on a terminal"),
  dryRun: Flags.toggle("dry-run", "Say what the command would do, and do nothing")
}

export const actionCommand = <const Name extends string>(
  name: Name,
  of: ActionName,
  { description, example }: { readonly description: string; readonly example: string }
) => {
  const { asks, fields, on }: Action = actions[of]
  const flags = Object.fromEntries(fields.map((field) => [field.name, flagOf(field)]))
  return Command.make(
    name,
    { json: Flags.json, project: Flags.project, texts: flags, confirmation: asks ? confirmation : {} },
    Effect.fn(function* ({ confirmation, json, project, texts }) {
      const { question, run } = yield* on(project, yield* newOnce, texts)
      const { dryRun, yes } = { dryRun: false, yes: false, ...confirmation }
      if (question !== undefined && (dryRun || (!yes && (yield* isOnTerminal)))) {
        const { document, message, title } = yield* question
        if (dryRun) return yield* answer(json, document ?? { message }, message)
        if (!(yield* confirm(`${title} ${message}`))) return yield* new NotDone({ message: "Nothing was changed" })
      }
      const { document, isFailure, message, texts: opened = {}, title } = yield* run
      const shown = Object.entries(opened).map(([name, text]) => `\n${name}: ${text}`)
      yield* answer(json, document, `${title}. ${message}${shown.join("")}`)
      if (isFailure === true) return yield* new NotDone({ message: title })
    }, onServices)
  ).pipe(Command.withDescription(description), Command.withExamples([{ command: `${cli} ${example}` }]))
}
