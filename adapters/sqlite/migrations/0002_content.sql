-- Content, apart from the journal that names it.
--
-- blobs holds bytes under the digest that rows name, per run and never shared, or (run '') of the factory. The digest is
-- over the bytes as received; encoding says how data is stored and key_id under which key, NULL for in the clear. Blobs
-- of an erased run are deleted while its rows still verify. put_at is when the bytes were last sent; kept tells that a
-- sweep found a row that names them, so that each blob is looked at once: an append has nothing to note.
-- modules holds every guest module that was used, by the SHA-256 of its uncompressed bytes.

-- +goose Up
CREATE TABLE blobs (
    factory  TEXT NOT NULL REFERENCES factories (factory),
    run      TEXT NOT NULL,
    digest   BLOB NOT NULL CHECK (octet_length(digest) = 32),
    encoding TEXT NOT NULL DEFAULT 'none' CHECK (encoding <> ''),
    key_id   TEXT CHECK (key_id <> ''),
    put_at   INTEGER NOT NULL CHECK (put_at > 0),
    kept     INTEGER NOT NULL DEFAULT 0 CHECK (kept IN (0, 1)),
    data     BLOB NOT NULL,
    PRIMARY KEY (factory, run, digest)
) STRICT;

CREATE INDEX blobs_sweep ON blobs (factory, put_at) WHERE NOT kept;

CREATE TABLE modules (
    digest BLOB NOT NULL PRIMARY KEY CHECK (octet_length(digest) = 32),
    data   BLOB NOT NULL
) STRICT;
