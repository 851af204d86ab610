/** The operator's commands: `npm run --silent cli -- <command>`. */
import { commands } from "./cli/Commands.ts"
import { run } from "./cli/Runner.ts"

run(commands)
