/**
 * The form of all state machines: a list of states, and a table of moves by name. A move has a target for each state from which
 * it is allowed. SQL conditions, documents and tests derive from the table.
 */
export interface Machine<State extends string, Move extends string, Target extends string = State> {
  readonly states: ReadonlyArray<State>
  readonly moves: Readonly<Record<Move, Readonly<Partial<Record<State, Target>>>>>
}

/** `others` are targets that are not states, such as the removal of the record. */
export const machine = <
  const State extends string,
  Move extends string,
  const Other extends string = never
>(definition: {
  readonly states: ReadonlyArray<State>
  readonly others?: ReadonlyArray<Other>
  readonly moves: Machine<NoInfer<State>, Move, NoInfer<State | Other>>["moves"]
}): Machine<State, Move, State | Other> => definition

export const startsOf = <State extends string, Move extends string, Target extends string>(
  { moves, states }: Machine<State, Move, Target>,
  move: Move
): ReadonlyArray<State> => states.filter((state) => moves[move][state] !== undefined)

/** Returns the target of a move. Throws if the move has different targets. */
export const targetOf = <State extends string, Move extends string, Target extends string>(
  machine: Machine<State, Move, Target>,
  move: Move
): Target => {
  const [to, ...others] = new Set(startsOf(machine, move).flatMap((from) => machine.moves[move][from] ?? []))
  if (to === undefined || others.length > 0) throw new Error(`${move} does not lead to one state`)
  return to
}

/** Returns the start and the target of a move. Throws if the move is allowed in several states. */
export const stepOf = <State extends string, Move extends string, Target extends string>(
  machine: Machine<State, Move, Target>,
  move: Move
): { readonly from: State; readonly to: Target } => {
  const [from, ...more] = startsOf(machine, move)
  if (from === undefined || more.length > 0) throw new Error(`${move} does not start from one state`)
  return { from, to: targetOf(machine, move) }
}

/** Returns the targets of all moves from `state`, except `state` itself. */
export const targetsOf = <State extends string, Move extends string, Target extends string>(
  { moves }: Machine<State, Move, Target>,
  state: State
): ReadonlyArray<Target> => {
  const rows: ReadonlyArray<Readonly<Partial<Record<State, Target>>>> = Object.values(moves)
  const targets = new Set(rows.flatMap((row) => row[state] ?? []))
  return [...targets].filter((target: string) => target !== state)
}
