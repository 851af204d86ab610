/** Makes the commands of the actions (`operators/Actions.ts`). */
import { Effect, Layer } from "effect"
import { Command, Flag } from "effect/cli"
import { SqlClient } from "effect/sql"
import { Sender } from "../webhooks/address/Sender.ts"
import { makeMutationClient, Mutations } from "../commands/Mutations.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { newOnce } from "../operating/AuditedActions.ts"
import type { Action } from "../operators/Action.ts"
import { actions } from "../operators/Actions.ts"
import * as Flags from "./Flags.ts"
import { onMigratedDatabase } from "./OnDatabase.ts"
import { answer, CommandFailed, confirm, described, isOnTerminal } from "./Output.ts"

/** Mutations on the connection of a command. */
export const mutations = Layer.effect(
  Mutations,
  Effect.map(SqlClient.SqlClient, (sql) => makeMutationClient({ sql, reads: sql, permits: 1 }))
)

const onServices = <A, E, R>(command: Effect.Effect<A, E, R>) =>
  command.pipe(Effect.provide([mutations, Sender.layerOfSettings, SecretBox.layerOfSettings]), onMigratedDatabase)

const flagOf = ({ default: usual, description, name, schema }: Action["fields"][number]) => {
  const flag = Flags.checkedFlag(name, schema).pipe(Flag.withMetavar(name.toUpperCase()))
  if (usual === undefined) return flag.pipe(Flag.withDescription(`${description} (required)`))
  return flag.pipe(
    Flag.withDescription(usual === "" ? description : `${description}; ${usual} if not given`),
    Flag.atLeast(0),
    Flag.map((texts) => (texts.length === 0 ? usual : texts.join(",")))
  )
}

const confirmation = {
  yes: Flags.toggle("yes", "Do not ask for confirmation on a terminal"),
  dryRun: Flags.toggle("dry-run", "Say what the command would do, and do nothing")
}

/** The values of fields in examples. */
const examples: Readonly<Record<string, string>> = {
  delivery: "dlv_0193f0cbd4e57f70819203a4b5c6d7e8",
  replay: "rpl_0193f0cbd4e57f70819203a4b5c6d7e8",
  message: "msg_0193f0cd92c37d5e8b2c3d4e5f607182",
  installation: "ins_shop",
  campaign: "cmp_spring",
  as: "sent",
  since: "2026-11-20T00:00:00Z",
  until: "2026-11-21T00:00:00Z",
  status: "all"
}

const actionCommand = (name: string, { asks, description = "", fields, on }: Action) => {
  const flags = Object.fromEntries(fields.map((field) => [field.name, flagOf(field)]))
  const given = fields.flatMap(({ name }) => (examples[name] === undefined ? [] : [`--${name} ${examples[name]}`]))
  return Command.make(
    name,
    { ...Flags.ofProject, texts: flags, confirmation: asks ? confirmation : {} },
    Effect.fn(function* ({ confirmation, json, project, texts }) {
      const { question, run } = yield* on(project, yield* newOnce, texts)
      const { dryRun, yes } = { dryRun: false, yes: false, ...confirmation }
      if (question !== undefined && (dryRun || (!yes && (yield* isOnTerminal)))) {
        const { message, title } = yield* question
        if (dryRun) return yield* answer(json, { message }, message)
        if (!(yield* confirm(`${title} ${message}`)))
          return yield* new CommandFailed({ message: "Nothing was changed" })
      }
      const { document, isFailure, message, texts: opened = {}, title } = yield* run
      const shown = Object.entries(opened).map(([name, text]) => `\n${name}: ${text}`)
      yield* answer(json, document, `${title}. ${message}${shown.join("")}`)
      if (isFailure === true) return yield* new CommandFailed({ message: title })
    }, onServices)
  ).pipe(described(description, { [["--project demo", ...given].join(" ")]: "" }))
}

/** Returns the commands of the actions whose paths begin with `group`. */
export const actionCommands = (group: string) =>
  Object.values<Action>(actions).flatMap((action) => {
    const [first, name] = action.command?.split(" ") ?? []
    return first === group && name !== undefined ? [actionCommand(name, action)] : []
  })
