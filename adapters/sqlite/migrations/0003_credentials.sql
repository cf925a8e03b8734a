-- Who may come in, and what people call them.
--
-- tokens holds the tagged digest of each secret, never the secret; id is what a person uses to revoke it. A principal
-- has many. Roles stand in the factory's journal, not here.
-- names are labels of principals and (principal '') of the factory; they stand in no journal.

-- +goose Up
CREATE TABLE tokens (
    hash       BLOB    NOT NULL PRIMARY KEY CHECK (octet_length(hash) = 32),
    factory    TEXT    NOT NULL CHECK (factory <> ''),
    id         TEXT    NOT NULL CHECK (id <> ''),
    principal  TEXT    NOT NULL CHECK (principal <> ''),
    expires_at INTEGER NOT NULL CHECK (expires_at >= 0),
    revoked    INTEGER NOT NULL CHECK (revoked IN (0, 1)),
    UNIQUE (factory, id)
) STRICT;

CREATE TABLE names (
    factory   TEXT NOT NULL CHECK (factory <> ''),
    principal TEXT NOT NULL,
    name      TEXT NOT NULL,
    PRIMARY KEY (factory, principal)
) STRICT, WITHOUT ROWID;
