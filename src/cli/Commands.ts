/** The command line of operators: finds and loads its commands (contract §13). */
import { Command } from "effect/cli"
import { cli } from "./Output.ts"

/** The commands by name. A module is loaded only if its command is needed. */
const modules = {
  project: async () => (await import("./commands/project.ts")).project,
  token: async () => (await import("./commands/token.ts")).token,
  task: async () => (await import("./commands/task.ts")).task,
  webhooks: async () => (await import("./commands/deliveries.ts")).webhooks,
  listen: async () => (await import("./commands/listen.ts")).listen,
  deliveries: async () => (await import("./commands/deliveries.ts")).deliveries,
  messages: async () => (await import("./commands/messages.ts")).messages,
  campaigns: async () => (await import("./commands/messages.ts")).campaigns,
  audit: async () => (await import("./commands/audit.ts")).audit,
  find: async () => (await import("./commands/audit.ts")).find,
  console: async () => (await import("./commands/console.ts")).consoleLink,
  cells: async () => (await import("./commands/cells.ts")).cells,
  secrets: async () => (await import("./commands/secrets.ts")).secrets,
  migrate: async () => (await import("./commands/migrate.ts")).migrate,
  doctor: async () => (await import("./commands/doctor.ts")).doctor,
  serve: async () => (await import("./commands/serve.ts")).serveAs("serve")
}

const isName = (text: string | undefined): text is keyof typeof modules =>
  text !== undefined && Object.hasOwn(modules, text)

/** Loads the command that the first argument names. For the help and for an unknown name, loads all commands. */
export const commandsFor = async ([name]: ReadonlyArray<string>) =>
  Command.make(cli).pipe(
    Command.withDescription("Operate the developer API: its projects, keys and database"),
    Command.withSubcommands(
      await Promise.all(isName(name) ? [modules[name]()] : Object.values(modules).map((load) => load()))
    )
  )
