/** The fields of tasks, with their types in commands, the project file and imports. Tasks have no endpoint. */
import { Schema } from "effect"
import { text } from "../schema/Fields.ts"
import { Instant } from "../schema/Instant.ts"

export const taskFields = {
  title: text(1, 160).annotate({ description: "What is to be done: 1 to 160 characters." }),
  dueAt: Schema.NullOr(Instant)
}
