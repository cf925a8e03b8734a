-- The journal and what is kept beside it.
--
-- factories and runs are the rows that an append locks. Each carries the head of its journal and the state folded up to
-- it, a cache; a run also has its salt (NULL once the run was erased), its opener, the expiry of the lease in force, until
-- when an ordinary claim may go on from here once that lease has lapsed (reclaim, 0 where none may) and the request id of
-- its outstanding ticket.
-- journal_rows is the record: one event a row, of a run or (run '') of the factory itself, never changed and never
-- removed. Bytes are kept as they were hashed. blobs is the digests of the row, 32 bytes each, one after the other.
-- receipts are the saved answers; key_run is empty in the spaces whose ids are unique per factory.
-- once_keys are facts that may be written once.
-- queue announces runs, the oldest first; request is empty for ordinary work, pool for the workers of any. An entry that is written again for the same
-- request keeps its place. factory_queue is the row whose lock makes the count of pending tickets true until the end of
-- the transaction.
--
-- An append writes to the other tables under the lock of the factory's row, so only what is written without one, and the
-- queue, refers to its owner: a foreign key costs an append a lookup for each row (a tenth of the server's time for one).
--
-- Factory is in every key. Ids compare as bytes. Instants are microseconds since 1970 UTC, 0 where nothing lapses.

-- +goose Up
CREATE TABLE factories (
    factory   text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(factory) BETWEEN 1 AND 64),
    head_seq  bigint           NOT NULL CHECK (head_seq >= 0),
    head_hash bytea            NOT NULL CHECK (octet_length(head_hash) = 32),
    head_at   bigint           NOT NULL CHECK (head_at >= 0),
    rules     bigint           NOT NULL CHECK (rules >= 0),
    state     bytea,
    CHECK ((head_seq = 0) = (state IS NULL))
);

CREATE TABLE runs (
    factory       text COLLATE "C" NOT NULL REFERENCES factories (factory),
    run           text COLLATE "C" NOT NULL CHECK (octet_length(run) BETWEEN 1 AND 64),
    salt          bytea            CHECK (octet_length(salt) = 32),
    opener        text COLLATE "C" NOT NULL,
    head_seq      bigint           NOT NULL CHECK (head_seq >= 0),
    head_hash     bytea            NOT NULL CHECK (octet_length(head_hash) = 32),
    head_at       bigint           NOT NULL CHECK (head_at >= 0),
    rules         bigint           NOT NULL CHECK (rules >= 0),
    state         bytea,
    lease_expires bigint           NOT NULL CHECK (lease_expires >= 0),
    reclaim       bigint           NOT NULL CHECK (reclaim >= 0),
    outstanding   text COLLATE "C" NOT NULL,
    PRIMARY KEY (factory, run),
    CHECK ((head_seq = 0) = (state IS NULL))
) WITH (fillfactor = 50); -- most appends update their run in place, if the page has room

CREATE INDEX runs_reclaim ON runs (factory, lease_expires, run) WHERE reclaim > 0;

CREATE INDEX runs_outstanding ON runs (factory, run) WHERE outstanding <> '';

CREATE TABLE journal_rows (
    factory      text COLLATE "C" NOT NULL,
    run          text COLLATE "C" NOT NULL,
    seq          bigint           NOT NULL CHECK (seq > 0),
    format       bigint           NOT NULL CHECK (format > 0),
    rules        bigint           NOT NULL CHECK (rules > 0),
    cmd          bigint           NOT NULL CHECK (cmd > 0),
    i            bigint           NOT NULL CHECK (i >= 0),
    n            bigint           NOT NULL CHECK (n > i),
    at           bigint           NOT NULL CHECK (at > 0),
    actor        text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL CHECK (kind <> ''),
    payload      bytea            NOT NULL,
    blobs        bytea            NOT NULL CHECK (octet_length(blobs) % 32 = 0),
    command_id   text COLLATE "C" NOT NULL,
    command_name text COLLATE "C" NOT NULL,
    command      bytea            NOT NULL,
    env          bytea            NOT NULL,
    prev_hash    bytea            NOT NULL CHECK (octet_length(prev_hash) = 32),
    hash         bytea            NOT NULL CHECK (octet_length(hash) = 32),
    PRIMARY KEY (factory, run, seq),
    UNIQUE (factory, run, cmd, i),
    UNIQUE (factory, run, prev_hash),
    CHECK ((seq = 1) = (prev_hash = decode(repeat('00', 32), 'hex'))),
    CHECK ((i = 0) = (command_id <> '')),
    CHECK (i = 0 OR (command_name = '' AND octet_length(command) = 0 AND octet_length(env) = 0))
);

-- +goose StatementBegin
CREATE FUNCTION journal_rows_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a journal row never changes and is never removed' USING ERRCODE = 'restrict_violation';
END;
$$;
-- +goose StatementEnd

CREATE TRIGGER journal_rows_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON journal_rows
    FOR EACH STATEMENT EXECUTE FUNCTION journal_rows_stay();

CREATE TABLE receipts (
    factory text COLLATE "C" NOT NULL,
    space   text COLLATE "C" NOT NULL CHECK (space <> ''),
    key_run text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 64),
    run     text COLLATE "C" NOT NULL,
    digest  bytea            NOT NULL CHECK (octet_length(digest) = 32),
    actor   text COLLATE "C" NOT NULL,
    body    bytea            NOT NULL,
    PRIMARY KEY (factory, space, key_run, id),
    CHECK (key_run = '' OR key_run = run)
);

CREATE TABLE once_keys (
    factory text COLLATE "C" NOT NULL,
    run     text COLLATE "C" NOT NULL,
    kind    text COLLATE "C" NOT NULL CHECK (kind <> ''),
    key     text COLLATE "C" NOT NULL CHECK (key <> ''),
    PRIMARY KEY (factory, run, kind, key)
);

CREATE TABLE queue (
    factory    text COLLATE "C" NOT NULL,
    run        text COLLATE "C" NOT NULL,
    request    text COLLATE "C" NOT NULL,
    pool       text COLLATE "C" NOT NULL,
    expires    bigint           NOT NULL CHECK (expires >= 0),
    entered_at bigint           NOT NULL CHECK (entered_at > 0),
    PRIMARY KEY (factory, run),
    FOREIGN KEY (factory, run) REFERENCES runs (factory, run)
);

CREATE INDEX queue_order ON queue (factory, entered_at, run);

CREATE INDEX queue_pending ON queue (factory, expires) WHERE request <> '';

CREATE TABLE factory_queue (
    factory text COLLATE "C" NOT NULL PRIMARY KEY REFERENCES factories (factory)
);
