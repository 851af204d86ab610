/** `npm start`: runs the service. `npm start -- --role api` runs half of it. */
import { run } from "./cli/Runner.ts"
import { serveAs } from "./cli/serve.ts"

run(serveAs("npm start --"))
