/** The command line of operators: finds and loads its commands (contract §13). */
import { Command, Flag } from "effect/cli"
import { Context, Effect } from "effect"
import { cli } from "../platform/Text.ts"

const modules = {
  project: async () => (await import("./commands/project.ts")).project,
  token: async () => (await import("./commands/access.ts")).token,
  task: async () => (await import("./commands/records.ts")).task,
  webhooks: async () => (await import("./commands/deliveries.ts")).webhooks,
  listen: async () => (await import("./commands/listen.ts")).listen,
  deliveries: async () => (await import("./commands/deliveries.ts")).deliveries,
  messages: async () => (await import("./commands/deliveries.ts")).messages,
  campaigns: async () => (await import("./commands/deliveries.ts")).campaigns,
  audit: async () => (await import("./commands/records.ts")).audit,
  find: async () => (await import("./commands/records.ts")).find,
  console: async () => (await import("./commands/access.ts")).consoleLink,
  cells: async () => (await import("./commands/database.ts")).cells,
  secrets: async () => (await import("./commands/database.ts")).secrets,
  migrate: async () => (await import("./commands/database.ts")).migrate,
  doctor: async () => (await import("./commands/doctor.ts")).doctor,
  serve: async () => serveAs("serve")
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

const nothing: (context: Context.Context<never>) => Context.Context<never> = () => Context.empty()

/** The command that runs the service. Its help shows `name`. */
export const serveAs = <const Name extends string>(name: Name) =>
  Command.make(
    name,
    {
      role: Flag.Literals("role", ["all", "api", "worker"]).pipe(
        Flag.withMetavar("ROLE"),
        Flag.withDescription(
          "api: HTTP without background work; worker: background work, and only /healthz and /readyz over HTTP; all: both; all if not given"
        ),
        Flag.withDefault("all")
      )
    },
    Effect.fnUntraced(function* (options) {
      // Loaded only here, so that other commands start in half the time.
      const { serve } = yield* Effect.promise(() => import("../service/Serve.ts"))
      // Removes the services of the command line from the context: each request would carry them.
      yield* Effect.updateContext(serve(options), nothing)
    })
  ).pipe(
    Command.withDescription("Run the service, until SIGTERM or SIGINT"),
    Command.withExamples([{ command: `${name} --role api` }])
  )
