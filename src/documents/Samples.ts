/**
 * Samples of a request: programs in four languages. They read the token from the variable `TOKEN`, and make a new idempotency key each
 * time they run. They need no package: JavaScript has `fetch`, Python `urllib.request`, PHP streams.
 */

interface SampleRequest {
  readonly method: string
  readonly url: string
  readonly isKeyed: boolean
  readonly body?: unknown
}

/** Each header as an expression in the language of the sample. */
type Headers = Readonly<Record<"authorization" | "idempotency-key" | "content-type", string>>

export const samplesOf = ({ body, isKeyed, method, url }: SampleRequest) => {
  const json = body === undefined ? undefined : JSON.stringify(body, null, 2)
  const withBody = (text: (json: string) => string) => (json === undefined ? "" : text(json))
  const names = [
    "authorization" as const,
    ...(isKeyed ? ["idempotency-key" as const] : []),
    ...(json === undefined ? [] : ["content-type" as const])
  ]
  const headers = (values: Headers, line: (name: string, value: string) => string) =>
    names.map((name) => line(name, values[name])).join("")

  const inShell: Headers = {
    authorization: "Bearer $TOKEN",
    "idempotency-key": "$(uuidgen || cat /proc/sys/kernel/random/uuid)",
    "content-type": "application/json"
  }
  const shell =
    `curl --request ${method} '${url}'` +
    headers(inShell, (name, value) => ` \\\n  --header "${name}: ${value}"`) +
    withBody((json) => ` \\\n  --data '${json.replaceAll("'", "'\\''")}'`)

  const inJavaScript: Headers = {
    authorization: "`Bearer ${process.env.TOKEN}`",
    "idempotency-key": "crypto.randomUUID()",
    "content-type": '"application/json"'
  }
  const javaScript = `const response = await fetch("${url}", {
  method: "${method}",
  headers: {
${headers(inJavaScript, (name, value) => `    "${name}": ${value},\n`)}  },
${withBody((json) => `  body: JSON.stringify(${indent(json, 2)}),\n`)}})
console.log(response.status, await response.json())`

  const inPython: Headers = {
    authorization: `"Bearer " + os.environ["TOKEN"]`,
    "idempotency-key": "str(uuid.uuid4())",
    "content-type": '"application/json"'
  }
  const python = `import json, os, urllib.request, uuid

request = urllib.request.Request(
    "${url}",
    method="${method}",
    headers={
${headers(inPython, (name, value) => `        "${name}": ${value},\n`)}    },
${withBody((json) => `    data=json.dumps(${indent(withPythonNames(json), 4)}).encode(),\n`)})
with urllib.request.urlopen(request) as response:
    print(response.status, json.load(response))`

  const inPhp: Headers = {
    authorization: `Bearer " . getenv("TOKEN")`,
    "idempotency-key": `" . bin2hex(random_bytes(16))`,
    "content-type": `application/json"`
  }
  const php = `<?php
$request = stream_context_create(["http" => [
    "method" => "${method}",
    "header" => [
${headers(inPhp, (name, value) => `        "${name}: ${value},\n`)}    ],
${withBody((json) => `    "content" => <<<'JSON'\n${json}\nJSON,\n`)}    "ignore_errors" => true,
]]);
$response = fopen("${url}", "r", false, $request);
echo stream_get_meta_data($response)["wrapper_data"][0], "\\n", stream_get_contents($response), "\\n";`

  return [
    { lang: "shell", label: "Shell", source: shell },
    { lang: "javascript", label: "JavaScript", source: javaScript },
    { lang: "python", label: "Python", source: python },
    { lang: "php", label: "PHP", source: php }
  ]
}

const indent = (text: string, by: number) => text.replaceAll("\n", `\n${" ".repeat(by)}`)

const withPythonNames = (json: string) =>
  json.replaceAll(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (token) => pythonNames[token] ?? token)

const pythonNames: Readonly<Record<string, string>> = { true: "True", false: "False", null: "None" }
