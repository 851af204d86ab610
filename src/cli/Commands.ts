/** Every operator command (contract §13). */
import { Command } from "effect/cli"
import { cli } from "./Output.ts"

/** The modules of the commands, by name. */
const modules = {
  project: async () => (await import("./project.ts")).project,
  token: async () => (await import("./token.ts")).token,
  task: async () => (await import("./task.ts")).task,
  webhooks: async () => (await import("./webhooks.ts")).webhooks,
  listen: async () => (await import("./listen.ts")).listen,
  deliveries: async () => (await import("./deliveries.ts")).deliveries,
  messages: async () => (await import("./messages.ts")).messages,
  audit: async () => (await import("./audit.ts")).audit,
  console: async () => (await import("./console.ts")).consoleLink,
  cells: async () => (await import("./cells.ts")).cells,
  secrets: async () => (await import("./secrets.ts")).secrets,
  migrate: async () => (await import("./migrate.ts")).migrate,
  doctor: async () => (await import("./doctor.ts")).doctor,
  serve: async () => (await import("./serve.ts")).serveAs("serve")
}

const isName = (text: string | undefined): text is keyof typeof modules =>
  text !== undefined && Object.hasOwn(modules, text)

/** Loads the command that the arguments name; all of them for the help, and for a name that is not known. */
export const commandsFor = async ([name]: ReadonlyArray<string>) =>
  Command.make(cli).pipe(
    Command.withDescription("Operate the developer API: its projects, keys and database"),
    Command.withSubcommands(
      await Promise.all(isName(name) ? [modules[name]()] : Object.values(modules).map((load) => load()))
    )
  )
