/** Messaging: channels and their sources, addresses on them, conversations, and the messages that were sent. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // A channel is a source of conversations; `source_id` is its name as one.
  yield* sql`
    CREATE TABLE channels (
      project_id    text COLLATE "C" NOT NULL REFERENCES projects,
      id            text COLLATE "C" NOT NULL,
      source_id     text COLLATE "C" NOT NULL,
      provider_type text NOT NULL,
      display_name  text NOT NULL,
      status        text NOT NULL CHECK (status IN ('active', 'revoked')),
      -- What the connector needs, sealed whole: the secret is not the only part that is nobody's business.
      config        bytea NOT NULL,
      connected_at  timestamptz(3) NOT NULL,
      revoked_at    timestamptz(3),
      PRIMARY KEY (project_id, id),
      UNIQUE (project_id, source_id),
      CHECK ((status = 'revoked') = (revoked_at IS NOT NULL))
    )`
  yield* sql`CREATE INDEX channels_by_age ON channels (project_id, connected_at DESC, source_id DESC)`

  // The representation of a channel in the API.
  yield* sql`
    CREATE VIEW sources AS
    SELECT project_id, source_id AS id, id AS channel_id, provider_type, display_name, status,
      connected_at AS created_at, revoked_at
    FROM channels`

  yield* sql`
    CREATE TABLE client_addresses (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      client_id  text COLLATE "C" NOT NULL,
      -- Their order, from 0.
      position   integer NOT NULL,
      channel_id text COLLATE "C" NOT NULL,
      address    text COLLATE "C" NOT NULL,
      PRIMARY KEY (project_id, client_id, position),
      FOREIGN KEY (project_id, client_id) REFERENCES clients (project_id, id),
      FOREIGN KEY (project_id, channel_id) REFERENCES channels (project_id, id)
    )`

  yield* sql`
    CREATE TABLE conversations (
      project_id  text COLLATE "C" NOT NULL REFERENCES projects,
      -- A UUID in lower case.
      id          text COLLATE "C" NOT NULL,
      client_id   text COLLATE "C",
      channel_id  text COLLATE "C" NOT NULL,
      address     text NOT NULL,
      -- When it was last seen on that channel.
      observed_at timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, client_id) REFERENCES clients (project_id, id),
      FOREIGN KEY (project_id, channel_id) REFERENCES channels (project_id, id)
    )`

  yield* sql`
    CREATE TABLE messages (
      project_id      text COLLATE "C" NOT NULL REFERENCES projects,
      id              text COLLATE "C" NOT NULL,
      conversation_id text COLLATE "C" NOT NULL,
      channel_id      text COLLATE "C" NOT NULL,
      -- The channel's when the message was made: it is repeated under no other, whose keys mean something else.
      provider_type   text NOT NULL,
      address         text NOT NULL,
      text            text NOT NULL,
      status          text NOT NULL CHECK (status IN ('pending', 'retrying', 'unknown', 'sent', 'failed')),
      -- Made so far; also the number of the current attempt, and the fence of its lease.
      attempts        integer NOT NULL,
      -- Whether the last attempt is under way, as far as anybody knows.
      attempting      boolean NOT NULL,
      -- [{number, status, startedAt, finishedAt, providerMessageId, errorCode, nextAttemptAt}], the oldest first.
      attempt_log     jsonb NOT NULL,
      -- While an attempt is under way: when its lease ends. Else when the next one is due, if there is to be one.
      available_at    timestamptz(3),
      -- Where its cause stands in a trace (W3C Trace Context).
      traceparent     text NOT NULL,
      created_at      timestamptz(3) NOT NULL,
      updated_at      timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, conversation_id) REFERENCES conversations (project_id, id),
      FOREIGN KEY (project_id, channel_id) REFERENCES channels (project_id, id),
      CHECK (NOT attempting OR available_at IS NOT NULL),
      CHECK (status IN ('pending', 'retrying', 'unknown') OR NOT attempting AND available_at IS NULL),
      CHECK (status <> 'pending' OR attempting)
    )`
  yield* sql`CREATE INDEX messages_due ON messages (project_id, available_at, id) WHERE available_at IS NOT NULL`
  yield* sql`CREATE INDEX messages_by_age ON messages (project_id, created_at DESC, id DESC)`
})
