/** Bodies of at most 256 KiB that are made to be as expensive as possible, by their method. */

interface HostileBody {
  readonly body: string
  /** Whether the answer has to omit faults. */
  readonly omits?: boolean
}

const repeated = (count: number, item: (index: number) => string) => Array.from({ length: count }, (_, i) => item(i))

const members = (count: number, value: string) => `{${repeated(count, (i) => `"m${i}":${value}`).join(",")}}`

export const hostileBodies: Readonly<Record<string, HostileBody>> = {
  "126,000 levels above 1,000 faulty leaves": {
    body: `${"[".repeat(126_000)}${repeated(1_000, () => "0").join(",")}${"]".repeat(126_000)}`
  },
  "126,000 open brackets": { body: "[".repeat(126_000) },
  "126,000 open objects": { body: '{"":'.repeat(60_000) },
  "32,000 nested objects in a list": { body: `{"a":[${repeated(32_000, () => '{"":{}}').join(",")}]}` },
  "20,000 unknown members": { body: members(20_000, "{}") },
  "unknown members with long names": { body: `{${repeated(4, (i) => `"${i}${"x".repeat(60_000)}":0`).join(",")}}` },
  "900 unknown members with long names": {
    body: `{${repeated(900, (i) => `"${i}${"é".repeat(120)}":0`).join(",")}}`,
    omits: true
  },
  "unknown members whose names are all escapes": {
    body: `{${repeated(900, (i) => `"${i}${"\\u0001".repeat(40)}":0`).join(",")}}`,
    omits: true
  },
  "120,000 faulty tags": { body: `{"displayName":"x","tags":[${repeated(120_000, () => "1").join(",")}]}` },
  "1,000 tags with unsafe characters": {
    body: `{"displayName":"x","tags":[${repeated(1_000, (i) => `"${i}\\u0000"`).join(",")}]}`,
    omits: true
  },
  "1,000 equal tags": { body: `{"displayName":"x","tags":[${repeated(1_000, () => '"same"').join(",")}]}` },
  "lists in lists with unsafe characters": {
    body: `{"a":[${repeated(900, () => `[${repeated(20, () => '"\\ud800"').join(",")}]`).join(",")}]}`,
    omits: true
  },
  "a display name of 260,000 characters": { body: `{"displayName":"${"x".repeat(260_000)}"}` },
  "an email made for backtracking": {
    body: `{"displayName":"x","email":"${"a.".repeat(60_000)}@${"a-".repeat(60_000)}"}`
  },
  "14,000 equal members": { body: `{${repeated(14_000, () => '"displayName":""').join(",")}}` },
  "130 lists of 1,000 numbers": {
    body: `{"a":[${repeated(127, () => `[${repeated(1_000, () => "1").join(",")}]`).join(",")}]}`
  },
  "60 lists of 1,001 numbers": {
    body: `{"a":[${repeated(60, () => `[${repeated(1_001, () => "1").join(",")}]`).join(",")}]}`
  },
  "one string of 40,000 escapes": { body: `{"displayName":"${"\\u0041".repeat(40_000)}"}` },
  "numbers of 250,000 digits": { body: `{"displayName":${"9".repeat(250_000)}}` }
}
