/** Looks for secrets in text, by their value in any form, and by what they look like. */
import { assert } from "@effect/vitest"

/** Secrets by what they are. */
export type Secrets = ReadonlyMap<string, string>

/** The characters of base64 that depend on the bytes alone, for each position in a longer text. */
const inBase64 = (bytes: Buffer): ReadonlyArray<string> =>
  [0, 1, 2].flatMap((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64")
    const whole = text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6))
    return [whole, whole.replaceAll("+", "-").replaceAll("/", "_")]
  })

/** The forms in which a secret could be written, in lower case: as it is, percent-encoded, in base64 and in hex. */
export const formsOf = (secret: string): ReadonlyArray<string> => {
  const bytes = Buffer.from(secret, "utf8")
  const [, key = ""] = /^(?:whsec_)?([A-Za-z0-9+/]{43}=)$/.exec(secret) ?? []
  const forms = [secret, encodeURIComponent(secret), ...inBase64(bytes), bytes.toString("hex")]
  // A key of 32 bytes is also a secret without its prefix, and as bytes.
  if (key !== "") forms.push(key.slice(0, -1), Buffer.from(key, "base64").toString("hex"))
  return [...new Set(forms.map((form) => form.toLowerCase()))]
}

/** The names of the secrets that a text holds, in any form. */
export const leaksIn = (text: string, secrets: Secrets): ReadonlyArray<string> => {
  const searched = text.toLowerCase()
  return [...secrets]
    .filter(([, secret]) => formsOf(secret).some((form) => searched.includes(form)))
    .map(([name]) => name)
}

/** Whole API tokens, signing secrets and tokens of bots. */
const looks = /dk_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}|whsec_[A-Za-z0-9+/]{43}=|\b\d{4,}:[A-Za-z0-9_-]{30,}/g

/** Texts that have the form of a whole secret. */
export const secretsIn = (text: string): ReadonlyArray<string> => text.match(looks) ?? []

type Environment = Readonly<Record<string, string>>

/** The secrets of an environment: keys, and the passwords of its URLs. */
const secretsOf = (env: Environment): Secrets =>
  new Map(
    Object.entries(env).flatMap(([name, value]): ReadonlyArray<readonly [string, string]> => {
      const password = URL.canParse(value) ? decodeURIComponent(new URL(value).password) : ""
      const secrets = name.startsWith("SECRET_KEY") ? value.split(",") : [password]
      // Shorter ones are words of other texts, too.
      return secrets.filter(({ length }) => length >= 16).map((secret) => [`what ${name} keeps secret`, secret])
    })
  )

/** Holds that a text has none of the secrets of an environment, and nothing that looks like one. */
export const expectNoSecret = (what: string, text: string, env: Environment = {}): void => {
  assert.deepStrictEqual([...leaksIn(text, secretsOf(env)), ...secretsIn(text)], [], what)
}

/** Whether a program prints a token by design: a command that issues one, or the first start on an empty directory. */
const tellsToken = (args: ReadonlyArray<string>, env: Environment) =>
  args.includes("token") || env["DATABASE_URL"] === undefined

/** Asserts that a program has printed no secret, except the token that it prints by design on standard output. */
export const expectNoSecretOf = (
  args: ReadonlyArray<string>,
  { stderr, stdout }: { readonly stdout: string; readonly stderr: string },
  env: Environment
): void => expectNoSecret(args.join(" "), stderr + (tellsToken(args, env) ? "" : stdout), env)
