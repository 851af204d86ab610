/** Returns the introduction of the reference: the rules that all operations share. Its links start with the URL `base`. */
export const introduction = (base: string): string =>
  `
The project-scoped developer API: CRM, messaging, campaigns and integrations. Every path is resolved in the project of the
token; a record of another project answers exactly like one that does not exist. More: [the whole contract](${base}/contract) with the
webhooks (§10), [the typed client](${base}/client) (\`npm install ${base}/client.tgz effect@4.1.0\`), [the document](${base}/openapi.json), and
[an index for programs](${base}/llms.txt), which also leads to the endpoint for agents.

## Credentials

Send \`Authorization: Bearer dk_…\` with each request. An operator of the service issues tokens. A token belongs to a project and
has scopes; each operation names the scope that it requires. The samples read the token from the environment: \`export TOKEN=dk_…\`.

## Problems

Every answer of 400 and above is \`application/problem+json\` (RFC 9457). \`code\` is for programs, \`detail\` for people, and
\`errors\` has every fault of path, query, header and body, by location: \`body/amountMinor\`, \`query/limit\`.
\`instance\` and the header \`x-request-id\` identify the request in the logs of the service. Each code has a schema below, with its
meaning and its remedy.

## Idempotency

Every mutation takes an \`idempotency-key\`. 8 to 160 characters of \`A-Za-z0-9._:-\`, a letter or a digit first, are valid for every
operation. The key belongs to the project, is kept for 7 days, and identifies one command. The same
command sent again gets its first answer, with \`idempotent-replayed: true\`, and has no second effect. So after a lost
connection, 429, 500 or 503 it is safe to send it again with the same key. A refused command stores nothing, and its key may be
used again. The same key with another request is \`idempotency_key_reused\`: after a change of the request, change its key.

## Versions

A record's \`version\` starts at 1 and grows with each change; it is the \`ETag\` of its answers. Where a command has an
\`expectedVersion\`, another version is \`version_conflict\` with \`currentVersion\`. Every operation with an \`ETag\` in its answer takes
it as \`If-Match\` too: if the record has another version, the answer is \`precondition_failed\`, and nothing is changed. The GET of a
record with \`If-None-Match\` is 304 while the version is the same.

## Pages

Lists are ordered by creation, newest first. Pipelines and installations are ordered by id. \`nextCursor\`, and \`Link: <…>; rel="next"\`, lead to the next page. A cursor
belongs to its list and filters; \`limit\` may change. Walking the pages never repeats or skips a record that existed at the
start.

## Rate limits

Each project has a bucket for reads, one for mutations and one for messages. \`RateLimit-Policy\` and \`RateLimit\`
(draft-ietf-httpapi-ratelimit-headers-11) show its size and what is left: \`r\` requests for the next \`t\` seconds.
\`Retry-After\` of a 429 is the time after which one more request succeeds. A refused request takes nothing from the bucket.

## Values

Members are camelCase; unknown ones are refused, and so are unknown or repeated query parameters. Times are RFC 3339 in UTC
with milliseconds, dates are \`YYYY-MM-DD\`, money is an integer in minor units with an ISO 4217 code. Lengths count Unicode
code points. Nothing is trimmed, and no text has U+0000 or an unpaired surrogate. A body has at most 256 KiB, that of a batch 1 MiB.

## Receiving events

Deliveries are signed by [Standard Webhooks](https://www.standardwebhooks.com) and arrive at least once: \`webhook-id\` is the
same for every attempt. Answer 2xx within 15 s. After 410 the webhook is disabled; after any other answer that is not 2xx, the delivery is retried for days.
\`replayDeliveries\` sends stored events again, with the same \`webhook-id\`. \`testWebhook\` sends a \`webhook.test.v1\` event, which is signed
like all others and has an empty \`data\`. Answer it with 2xx, and do nothing else. Operators can do both, too.
`.trim()
