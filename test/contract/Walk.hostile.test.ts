/** Every operation: hostile values, and the answers to them (contract §1, §2, §15). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { codeOf, problemOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { type Change, queryOf, stringsOf } from "./Requests.ts"
import { World } from "./Samples.ts"
import { each, walking } from "./Walk.support.ts"

const words = (text: string) => text.split(" ")

/** Values that a database, a calendar or a number parser could misread. */
const hostileTexts = [
  " ",
  "null",
  "'; --",
  "\\",
  "%_",
  "{}",
  "\u007f",
  "\ufffe",
  "😀",
  "x".repeat(2_000),
  "0001-01-01 BC",
  ...[
    "infinity -infinity epoch now 0001-01-01 0000-01-01 -0001-01-01 9999-12-31 10000-01-01 NaN 1e3 +1 01 0 -1",
    "2147483648 9007199254740991 9007199254740992 9223372036854775808"
  ].flatMap(words),
  "9".repeat(400)
]
/** Values as JSON texts, as JSON.stringify would change some of the numbers. */
const hostileJson = [
  ...["", ...hostileTexts].map((text) => JSON.stringify(text)),
  ...[
    "null true 0 -0 -1 1.5 1.0 1e0 32768 2147483648 9007199254740991 9007199254740993 9223372036854775808",
    "1e308 1e999 1e-999"
  ].flatMap(words)
]

layer(World.layer, { excludeTestServices: true })("every operation", (it) => {
  const walk = walking(it)

  walk("answers hostile values of parameters and members without a server error", function* (sample, ask) {
    const assertSound = (answer: Answer, what: string) => {
      assert.isBelow(answer.status, 500, what)
      if (answer.status !== sample.status) problemOf(answer, answer.status, String(codeOf(answer)))
    }
    const texts = ["", ...hostileTexts].flatMap((text): ReadonlyArray<readonly [what: string, change: Change]> => [
      // An empty id would be another path.
      ...(text === "" ? [] : Object.keys(sample.params ?? {})).map(
        (name) => [`${name}: ${text}`, { params: { [name]: encodeURIComponent(text) } }] as const
      ),
      ...Object.keys(sample.query ?? {}).map((name) => {
        const query = new URLSearchParams({ ...Object.fromEntries(queryOf(sample)), [name]: text }).toString()
        return [query, { query }] as const
      })
    ])
    const bodies = Object.keys(sample.body ?? {}).flatMap((name) =>
      hostileJson.map((value) => {
        const members = JSON.stringify({ ...sample.body, [name]: "here" })
        const body = members.replace(`"${name}":"here"`, () => `"${name}":${value}`)
        return [body.slice(0, 300), { body }] as const
      })
    )
    yield* each([...texts, ...bodies], ([what, change]) =>
      Effect.map(ask(change), (answer) => assertSound(answer, what))
    )
  })

  walk("repeats no token in a problem", function* (sample, ask) {
    const { own } = yield* World
    for (const secret of [own.token, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]) {
      const changes: ReadonlyArray<Change> = [
        { query: `${secret}=1` },
        { query: "surprise=1", headers: { "x-request-id": secret } },
        ...Object.keys(sample.params ?? {}).map((name) => ({ params: { [name]: secret } })),
        ...Object.keys(sample.query ?? {}).map((name) => ({ query: `${name}=${secret}` })),
        ...[...stringsOf(sample.body, "body")].map(([, replaced]) => ({ json: replaced(secret) })),
        ...(sample.body === undefined ? [{ body: secret }] : [{ json: { ...sample.body, [secret]: secret } }]),
        ...(sample.key === undefined ? [] : [{ key: `${secret} ` }, { key: `${secret}é` }])
      ]
      yield* each(changes, (change) =>
        Effect.map(ask(change), ({ status, text }) => {
          if (status >= 400) assert.notInclude(text, secret.slice(-20), JSON.stringify(change))
        })
      )
    }
  })
})
