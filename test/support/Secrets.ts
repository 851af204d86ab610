/** Searches text for secrets, by their value in any form, and by the pattern of secrets. */
import { assert } from "@effect/vitest"

/** Secrets by their description. */
export type Secrets = ReadonlyMap<string, string>

/** Returns the base64 characters that depend only on the bytes, for each position in a longer text. */
const inBase64 = (bytes: Buffer): ReadonlyArray<string> =>
  [0, 1, 2].flatMap((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64")
    const whole = text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6))
    return [whole, whole.replaceAll("+", "-").replaceAll("/", "_")]
  })

/** Returns the forms in which a secret may appear, in lower case: plain, percent-encoded, in base64 and in hex. */
const formsOf = (secret: string): ReadonlyArray<string> => {
  const bytes = Buffer.from(secret, "utf8")
  const [, key = ""] = /^(?:whsec_)?([A-Za-z0-9+/]{43}=)$/.exec(secret) ?? []
  const forms = [secret, encodeURIComponent(secret), ...inBase64(bytes), bytes.toString("hex")]
  // A 32-byte key is also a secret without its prefix, and as bytes.
  if (key !== "") forms.push(key.slice(0, -1), Buffer.from(key, "base64").toString("hex"))
  return [...new Set(forms.map((form) => form.toLowerCase()))]
}

/** Returns the names of the secrets that a text contains in any form. */
export const leaksIn = (text: string, secrets: Secrets): ReadonlyArray<string> => {
  const searched = text.toLowerCase()
  return [...secrets]
    .filter(([, secret]) => formsOf(secret).some((form) => searched.includes(form)))
    .map(([name]) => name)
}

/** Matches complete API tokens, signing secrets and tokens of bots. */
const looks = /dk_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}|whsec_[A-Za-z0-9+/]{43}=|\b\d{4,}:[A-Za-z0-9_-]{30,}/g

/** Returns the texts that have the form of a complete secret. */
export const secretsIn = (text: string): ReadonlyArray<string> => text.match(looks) ?? []

type Environment = Readonly<Record<string, string>>

/** Returns the secrets of an environment: keys, and the passwords of its URLs. */
const secretsOf = (env: Environment): Secrets =>
  new Map(
    Object.entries(env).flatMap(([name, value]): ReadonlyArray<readonly [string, string]> => {
      const password = URL.canParse(value) ? decodeURIComponent(new URL(value).password) : ""
      const secrets = name.startsWith("SECRET_KEY") ? value.split(",") : [password]
      // Shorter ones may occur in other texts by chance.
      return secrets.filter(({ length }) => length >= 16).map((secret) => [`what ${name} keeps secret`, secret])
    })
  )

/** Asserts that a text has none of the secrets of an environment, and no text of the form of a secret. */
export const expectNoSecret = (what: string, text: string, env: Environment = {}): void => {
  assert.deepStrictEqual([...leaksIn(text, secretsOf(env)), ...secretsIn(text)], [], what)
}

/** Whether a program prints a token by design: a command that issues one, or the first start on an empty directory. */
const printsToken = (args: ReadonlyArray<string>, env: Environment) =>
  args.includes("token") || env["DATABASE_URL"] === undefined

/** Asserts that a program has printed no secret, except the token that it prints by design on standard output. */
export const expectNoSecretOf = (
  args: ReadonlyArray<string>,
  { stderr, stdout }: { readonly stdout: string; readonly stderr: string },
  env: Environment
): void => expectNoSecret(args.join(" "), stderr + (printsToken(args, env) ? "" : stdout), env)
