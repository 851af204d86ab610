/** Every operator command (contract §13). */
import { Command } from "effect/cli"
import { audit } from "./audit.ts"
import { consoleLink } from "./console.ts"
import { deliveries } from "./deliveries.ts"
import { doctor } from "./doctor.ts"
import { messages } from "./messages.ts"
import { migrate } from "./migrate.ts"
import { cli } from "./Output.ts"
import { project } from "./project.ts"
import { secrets } from "./secrets.ts"
import { serveAs } from "./serve.ts"
import { task } from "./task.ts"
import { token } from "./token.ts"
import { webhooks } from "./webhooks.ts"

export const commands = Command.make(cli).pipe(
  Command.withDescription("Operate the developer API: its projects, keys and database"),
  Command.withSubcommands([
    project,
    token,
    task,
    webhooks,
    deliveries,
    messages,
    audit,
    consoleLink,
    secrets,
    migrate,
    doctor,
    serveAs("serve")
  ])
)
