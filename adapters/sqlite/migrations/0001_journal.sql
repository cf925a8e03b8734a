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
-- Factory is in every key. Instants are microseconds since 1970 UTC, 0 where nothing lapses.

-- +goose Up
CREATE TABLE factories (
    factory   TEXT    NOT NULL PRIMARY KEY CHECK (octet_length(factory) BETWEEN 1 AND 64),
    head_seq  INTEGER NOT NULL CHECK (head_seq >= 0),
    head_hash BLOB    NOT NULL CHECK (octet_length(head_hash) = 32),
    head_at   INTEGER NOT NULL CHECK (head_at >= 0),
    rules     INTEGER NOT NULL CHECK (rules >= 0),
    state     BLOB,
    CHECK ((head_seq = 0) = (state IS NULL))
) STRICT;

CREATE TABLE runs (
    factory       TEXT    NOT NULL REFERENCES factories (factory),
    run           TEXT    NOT NULL CHECK (octet_length(run) BETWEEN 1 AND 64),
    salt          BLOB    CHECK (octet_length(salt) = 32),
    opener        TEXT    NOT NULL,
    head_seq      INTEGER NOT NULL CHECK (head_seq >= 0),
    head_hash     BLOB    NOT NULL CHECK (octet_length(head_hash) = 32),
    head_at       INTEGER NOT NULL CHECK (head_at >= 0),
    rules         INTEGER NOT NULL CHECK (rules >= 0),
    state         BLOB,
    lease_expires INTEGER NOT NULL CHECK (lease_expires >= 0),
    reclaim       INTEGER NOT NULL CHECK (reclaim >= 0),
    outstanding   TEXT    NOT NULL,
    PRIMARY KEY (factory, run),
    CHECK ((head_seq = 0) = (state IS NULL))
) STRICT;

CREATE INDEX runs_reclaim ON runs (factory, lease_expires, run) WHERE reclaim > 0;

CREATE INDEX runs_outstanding ON runs (factory, run) WHERE outstanding <> '';

CREATE TABLE journal_rows (
    factory      TEXT    NOT NULL,
    run          TEXT    NOT NULL,
    seq          INTEGER NOT NULL CHECK (seq > 0),
    format       INTEGER NOT NULL CHECK (format > 0),
    rules        INTEGER NOT NULL CHECK (rules > 0),
    cmd          INTEGER NOT NULL CHECK (cmd > 0),
    i            INTEGER NOT NULL CHECK (i >= 0),
    n            INTEGER NOT NULL CHECK (n > i),
    at           INTEGER NOT NULL CHECK (at > 0),
    actor        TEXT    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind <> ''),
    payload      BLOB    NOT NULL,
    blobs        BLOB    NOT NULL CHECK (octet_length(blobs) % 32 = 0),
    command_id   TEXT    NOT NULL,
    command_name TEXT    NOT NULL,
    command      BLOB    NOT NULL,
    env          BLOB    NOT NULL,
    prev_hash    BLOB    NOT NULL CHECK (octet_length(prev_hash) = 32),
    hash         BLOB    NOT NULL CHECK (octet_length(hash) = 32),
    PRIMARY KEY (factory, run, seq),
    UNIQUE (factory, run, cmd, i),
    UNIQUE (factory, run, prev_hash),
    CHECK ((seq = 1) = (prev_hash = zeroblob(32))),
    CHECK ((i = 0) = (command_id <> '')),
    CHECK (i = 0 OR (command_name = '' AND octet_length(command) = 0 AND octet_length(env) = 0))
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER journal_rows_stay BEFORE UPDATE ON journal_rows
BEGIN
    SELECT RAISE(ABORT, 'a journal row never changes');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER journal_rows_remain BEFORE DELETE ON journal_rows
BEGIN
    SELECT RAISE(ABORT, 'a journal row is never removed');
END;
-- +goose StatementEnd

CREATE TABLE receipts (
    factory TEXT NOT NULL,
    space   TEXT NOT NULL CHECK (space <> ''),
    key_run TEXT NOT NULL,
    id      TEXT NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 64),
    run     TEXT NOT NULL,
    digest  BLOB NOT NULL CHECK (octet_length(digest) = 32),
    actor   TEXT NOT NULL,
    body    BLOB NOT NULL,
    PRIMARY KEY (factory, space, key_run, id),
    CHECK (key_run = '' OR key_run = run)
) STRICT;

CREATE TABLE once_keys (
    factory TEXT NOT NULL,
    run     TEXT NOT NULL,
    kind    TEXT NOT NULL CHECK (kind <> ''),
    key     TEXT NOT NULL CHECK (key <> ''),
    PRIMARY KEY (factory, run, kind, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE queue (
    factory    TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    request    TEXT    NOT NULL,
    pool       TEXT    NOT NULL,
    expires    INTEGER NOT NULL CHECK (expires >= 0),
    entered_at INTEGER NOT NULL CHECK (entered_at > 0),
    PRIMARY KEY (factory, run),
    FOREIGN KEY (factory, run) REFERENCES runs (factory, run)
) STRICT;

CREATE INDEX queue_order ON queue (factory, entered_at, run);

CREATE INDEX queue_pending ON queue (factory, expires) WHERE request <> '';

CREATE TABLE factory_queue (
    factory TEXT NOT NULL PRIMARY KEY REFERENCES factories (factory)
) STRICT;
