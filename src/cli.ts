/** The operator's commands (contract §13): `npm run --silent cli -- <command>`. */
import { Command } from "effect/cli"
import { deliveries } from "./cli/deliveries.ts"
import { doctor } from "./cli/doctor.ts"
import { messages } from "./cli/messages.ts"
import { migrate } from "./cli/migrate.ts"
import { cli } from "./cli/Output.ts"
import { project } from "./cli/project.ts"
import { run } from "./cli/Runner.ts"
import { serveAs } from "./cli/serve.ts"
import { task } from "./cli/task.ts"
import { token } from "./cli/token.ts"

Command.make(cli).pipe(
  Command.withDescription("Operate the developer API: its projects, keys and database"),
  Command.withSubcommands([project, token, task, deliveries, messages, migrate, doctor, serveAs("serve")]),
  run
)
