/** Messaging: channels, addresses of clients on them, conversations, and the messages that were sent. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // The API shows a channel as a source of conversations, with `source_id` as its id.
  yield* sql`
    CREATE TABLE channels (
      project_id    text COLLATE "C" NOT NULL REFERENCES projects,
      id            text COLLATE "C" NOT NULL,
      source_id     text COLLATE "C" NOT NULL,
      provider_type text NOT NULL,
      display_name  text NOT NULL,
      status        text NOT NULL CHECK (status IN ('active', 'revoked')),
      -- Configuration of the connector, sealed whole: not only its secret is confidential.
      config        bytea NOT NULL,
      connected_at  timestamptz(3) NOT NULL,
      revoked_at    timestamptz(3),
      PRIMARY KEY (project_id, id),
      UNIQUE (project_id, source_id),
      CHECK ((status = 'revoked') = (revoked_at IS NOT NULL))
    )`
  yield* sql`CREATE INDEX channels_by_age ON channels (project_id, connected_at DESC, source_id DESC)`

  yield* sql`
    CREATE VIEW sources AS
    SELECT project_id, source_id AS id, id AS channel_id, provider_type, display_name, status,
      connected_at AS created_at, revoked_at
    FROM channels`

  yield* sql`
    CREATE TABLE client_addresses (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      client_id  text COLLATE "C" NOT NULL,
      -- Order within the client, from 0.
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
      -- Time at which the conversation was last seen on the channel.
      observed_at timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, client_id) REFERENCES clients (project_id, id),
      FOREIGN KEY (project_id, channel_id) REFERENCES channels (project_id, id)
    )`

  // Many messages share a conversation or a channel, so triggers replace the foreign keys to them.
  yield* sql`
    CREATE TABLE messages (
      project_id      text COLLATE "C" NOT NULL,
      id              text COLLATE "C" NOT NULL,
      -- Null for a message of a campaign.
      conversation_id text COLLATE "C",
      channel_id      text COLLATE "C" NOT NULL,
      -- Provider of the channel at the creation of the message. Only this provider gets attempts, as it knows their keys.
      provider_type   text NOT NULL,
      address         text NOT NULL,
      text            text NOT NULL,
      status          text NOT NULL CHECK (status IN ('pending', 'retrying', 'unknown', 'sent', 'failed')),
      -- Attempts made; also the number of the current one, and the fence of its lease.
      attempts        integer NOT NULL,
      -- Whether the last attempt is in flight, as far as is known.
      attempting      boolean NOT NULL,
      -- [{number, status, startedAt, finishedAt, providerMessageId, errorCode, nextAttemptAt}], the oldest first.
      attempt_log     jsonb NOT NULL,
      -- End of the lease while an attempt is in flight. Otherwise the time of the next attempt, if any.
      available_at    timestamptz(3),
      -- Worker that holds the lease while an attempt is in flight. Null if a request makes the attempt itself: such a lease
      -- ends only by its time.
      worker_id       bigint,
      -- Span of the request that caused the message (W3C Trace Context).
      traceparent     text NOT NULL,
      created_at      timestamptz(3) NOT NULL,
      updated_at      timestamptz(3) NOT NULL,
      -- The recipient of a campaign's message. Between two attempts available_at is null: the recipient has the time.
      campaign_id     text COLLATE "C",
      audience_id     text COLLATE "C",
      position        integer,
      PRIMARY KEY (project_id, id),
      CHECK (NOT attempting OR available_at IS NOT NULL),
      CHECK (status IN ('pending', 'retrying', 'unknown') OR NOT attempting AND available_at IS NULL),
      CHECK (status <> 'pending' OR attempting)
    ) WITH (
      autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, vacuum_index_cleanup = on
    )`
  yield* sql`CREATE INDEX messages_due ON messages (project_id, available_at, id) WHERE available_at IS NOT NULL`
  yield* sql`CREATE INDEX messages_leased ON messages (project_id, id) WHERE attempting AND worker_id IS NOT NULL`
  yield* sql`CREATE INDEX messages_by_age ON messages (project_id, created_at DESC, id DESC)`
  yield* sql`
    CREATE INDEX messages_unknown ON messages (project_id, created_at DESC, id DESC) WHERE status = 'unknown'`
  // For retention, which deletes no message of unknown outcome.
  yield* sql`
    CREATE INDEX messages_settled ON messages (project_id, updated_at) WHERE status IN ('sent', 'failed')`
  yield* sql`
    CREATE TRIGGER referenced_by_messages_conversation_id AFTER DELETE ON conversations
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
    EXECUTE FUNCTION keep_referenced('messages', 'conversation_id', 'id')`
  yield* sql`
    CREATE TRIGGER referenced_by_messages_channel_id AFTER DELETE ON channels
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
    EXECUTE FUNCTION keep_referenced('messages', 'channel_id', 'id')`
})
