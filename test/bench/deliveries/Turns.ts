import { Effect } from "effect"
import { progress } from "../Options.ts"
import type { Figures } from "./Report.ts"

/** Runs rounds of all contenders in an order that rotates from round to round. Returns the figures of each round by name. */
export const takeTurns = Effect.fnUntraced(function* <A extends { readonly name: string }, E, R>(
  what: string,
  all: ReadonlyArray<A>,
  rounds: number,
  run: (one: A) => Effect.Effect<Figures, E, R>
) {
  const done: Array<Readonly<Record<string, Figures>>> = []
  for (let i = 0; i < rounds; i++) {
    const figures: Record<string, Figures> = {}
    const order = [...all.slice(i % all.length), ...all.slice(0, i % all.length)]
    for (const one of order) {
      const found = yield* run(one)
      figures[one.name] = found
      const line = Object.entries(found).map(([name, value]) => `${name} ${value.toFixed(1)}`)
      yield* progress(`${what} ${i + 1}/${rounds}: ${one.name}: ${line.join(", ")}`)
    }
    done.push(figures)
  }
  return done
})
