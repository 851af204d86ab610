import { Context, Effect } from "effect"
import { Command, Flag } from "effect/cli"

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
      const { serve } = yield* Effect.promise(() => import("../../service/Serve.ts"))
      // Removes the services of the command line from the context: each request would carry them.
      yield* Effect.updateContext(serve(options), nothing)
    })
  ).pipe(
    Command.withDescription("Run the service, until SIGTERM or SIGINT"),
    Command.withExamples([{ command: `${name} --role api` }])
  )
