/** What the reference tells before its operations: the rules that hold for all of them. */
export const introduction = `
The project-scoped developer API: CRM, messaging, campaigns and integrations. Every path lies inside the project of the
token; a record of another project answers exactly as one that does not exist.

## Credentials

Send \`Authorization: Bearer dk_…\` with each request. A token has a project and scopes; each operation names the one that it
needs.

## Problems

Every answer of 400 and above is \`application/problem+json\` (RFC 9457). \`code\` is for programs, \`detail\` for people, and
\`errors\` tells every fault of path, query, header and body at once, by location: \`body/amountMinor\`, \`query/limit\`.
\`instance\` and the header \`x-request-id\` name the request in the logs of the service. Each code is a schema of its own below,
with its meaning and what to do.

## Idempotency

Every mutation takes an \`idempotency-key\`. It belongs to the project, is kept for 7 days, and names one command: sent again,
the command answers what it answered first, with \`idempotent-replayed: true\`, and has no second effect. So whatever ends
without an answer (a lost connection, 429, 500, 503) is safely sent again with the same key. A command that was refused
leaves nothing behind, and its key may be used again. The same key with another request is \`idempotency_key_reused\`.

## Versions

A record's \`version\` starts at 1 and grows with each change; it is the \`ETag\` of its answers. Where a command takes an
\`expectedVersion\`, another version is \`version_conflict\`, which tells the current one.

## Pages

Lists are ordered by creation, newest first. \`nextCursor\`, and \`Link: <…>; rel="next"\`, lead on while there is more. A
cursor belongs to its list and filters; \`limit\` may change. Walking the pages repeats and skips nothing that was there at
the start.

## Rate limits

Each project has a bucket for reads, one for mutations and one for messages. \`RateLimit-Policy\` and \`RateLimit\`
(draft-ietf-httpapi-ratelimit-headers-10) tell how large it is and what is left; 429 tells by \`Retry-After\` when one more
request succeeds. What was refused takes nothing from the bucket.

## Forms

Members are camelCase; unknown ones are refused, and so are unknown or repeated query parameters. Times are RFC 3339 in UTC
with milliseconds, dates are \`YYYY-MM-DD\`, money is an integer in minor units with an ISO 4217 code. Lengths count Unicode
code points. Nothing is trimmed. A body has at most 256 KiB.

## Webhooks

Deliveries are signed by [Standard Webhooks](https://www.standardwebhooks.com) and come at least once: \`webhook-id\` is the
same for every attempt. Answer 2xx within 15 s; 410 switches the webhook off; everything else is tried again for days.
Operators can have stored events delivered again, under the \`webhook-id\` that they had, and send \`webhook.test.v1\` events: these
are signed like all others, have an empty \`data\`, and mean nothing; answer 2xx.
`.trim()
