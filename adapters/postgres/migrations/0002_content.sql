-- Content, apart from the journal that names it.
--
-- blobs holds bytes under the digest that rows name, per run and never shared, or (run '') of the factory. The digest is
-- over the bytes as received; encoding says how data is stored and key_id under which key, NULL for in the clear. Blobs
-- of an erased run are deleted while its rows still verify.
-- modules holds every guest module that was used, by the SHA-256 of its uncompressed bytes.

-- +goose Up
CREATE TABLE blobs (
    factory  text COLLATE "C" NOT NULL REFERENCES factories (factory),
    run      text COLLATE "C" NOT NULL,
    digest   bytea            NOT NULL CHECK (octet_length(digest) = 32),
    encoding text COLLATE "C" NOT NULL DEFAULT 'none' CHECK (encoding <> ''),
    key_id   text COLLATE "C" CHECK (key_id <> ''),
    data     bytea            NOT NULL,
    PRIMARY KEY (factory, run, digest)
);

CREATE TABLE modules (
    digest bytea NOT NULL PRIMARY KEY CHECK (octet_length(digest) = 32),
    data   bytea NOT NULL
);
