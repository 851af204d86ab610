/** Lays out the text of a statement: templates that are put into each other don't share their indentation. */

/** Words that start a line at the level of their brackets. All other text continues the line. */
const leading = new RegExp(
  "^(?:" +
    [
      "(?:WITH|SELECT|FROM|WHERE|GROUP BY|ORDER BY|LIMIT|OFFSET|UNION|INSERT|UPDATE|DELETE|SET|VALUES|RETURNING|USING)\\b",
      "(?:LEFT JOIN|CROSS JOIN|JOIN|ON CONFLICT|FOR NO KEY UPDATE|FOR UPDATE)\\b",
      "\\w+(?: \\([^)]*\\))? AS (?:NOT )?(?:MATERIALIZED )?\\(",
      "[)]"
    ].join("|") +
    ")"
)

/** Returns the change of the bracket depth within a line, and the number of brackets that it closes at its start. */
const bracketsOf = (line: string) => {
  const bare = line.replaceAll(/'[^']*'|--.*$/g, "")
  const closed = /^[)]+/.exec(bare)?.[0].length ?? 0
  return { closed, change: [...bare].reduce((sum, c) => sum + (c === "(" ? 1 : c === ")" ? -1 : 0), 0) }
}

export const layOut = (text: string): string => {
  let depth = 0
  const lines = text.split("\n").flatMap((raw) => {
    const line = raw.trim()
    if (line === "") return []
    const { change, closed } = bracketsOf(line)
    const indentation = Math.max(0, depth - closed) + (leading.test(line) ? 0 : 1)
    depth += change
    return [`${"  ".repeat(indentation)}${line}`]
  })
  return lines.join("\n")
}
