/** The table of states and operations of contract §9, read from its text. */
import type { CampaignStatus, Operation } from "../../src/api/campaigns/States.ts"

const table = `
| operation | draft | scheduled | running | paused | completed | cancelled |
|---|---|---|---|---|---|---|
| rename | yes | yes | 409 | yes | 409 | 409 |
| delete | yes | 409 | 409 | 409 | yes | yes |
| bind_template, bind_sender, set_primary_route, set_fallback_route, remove_fallback_route, freeze_audience | yes | 409 | 409 | 409 | 409 | 409 |
| schedule | → scheduled | reschedules | 409 | 409 | 409 | 409 |
| duplicate | new draft | new draft | new draft | new draft | new draft | new draft |
| pause | 409 | → paused | → paused | unchanged | 409 | 409 |
| resume | 409 | unchanged | unchanged | → the state it was paused from | 409 | 409 |
| cancel | 409 | → cancelled | → cancelled | → cancelled | 409 | unchanged |
`

export interface Cell {
  readonly operation: string
  readonly status: string
  readonly outcome: string
}

const lines = table
  .trim()
  .split("\n")
  .filter((line) => !line.startsWith("|---"))
  .map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim())
  )

/** Every cell of the table. */
export const cells: ReadonlyArray<Cell> = lines
  .slice(1)
  .flatMap(([operations = "", ...outcomes]) =>
    operations
      .split(", ")
      .flatMap((operation) =>
        outcomes.map((outcome, index) => ({ operation, status: lines[0]?.[index + 1] ?? "", outcome }))
      )
  )

/** Type guards for names of the table, which `Campaigns.states` compares with those of the service. */
export const isOperation = (name: string): name is Operation => cells.some(({ operation }) => operation === name)
export const isStatus = (name: string): name is CampaignStatus => cells.some(({ status }) => status === name)
