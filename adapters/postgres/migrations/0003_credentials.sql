-- Who may come in, and what people call them.
--
-- tokens holds the tagged digest of each secret, never the secret; id is what a person uses to revoke it. A principal
-- has many. Roles stand in the factory's journal, not here.
-- names are labels of principals and (principal '') of the factory; they stand in no journal.

-- +goose Up
CREATE TABLE tokens (
    hash       bytea            NOT NULL PRIMARY KEY CHECK (octet_length(hash) = 32),
    factory    text COLLATE "C" NOT NULL CHECK (factory <> ''),
    id         text COLLATE "C" NOT NULL CHECK (id <> ''),
    principal  text COLLATE "C" NOT NULL CHECK (principal <> ''),
    expires_at bigint           NOT NULL CHECK (expires_at >= 0),
    revoked    boolean          NOT NULL,
    UNIQUE (factory, id)
);

CREATE TABLE names (
    factory   text COLLATE "C" NOT NULL CHECK (factory <> ''),
    principal text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    PRIMARY KEY (factory, principal)
);
