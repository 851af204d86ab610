/** Tasks have no endpoint; this is what every way in shares (commands, project file, import). */
import { Schema } from "effect"
import { text } from "../Fields.ts"
import { Instant } from "../Instant.ts"

export const taskFields = {
  title: text(1, 160),
  dueAt: Schema.NullOr(Instant)
}
