-- How much content a run has, so that it can be bounded without adding up.
--
-- blob_bytes is the bytes of the run's blobs; whoever puts or removes one holds the run's row.

-- +goose Up
ALTER TABLE runs ADD COLUMN blob_bytes INTEGER NOT NULL DEFAULT 0 CHECK (blob_bytes >= 0);

UPDATE runs SET blob_bytes = (SELECT COALESCE(sum(octet_length(b.data)), 0) FROM blobs b WHERE b.factory = runs.factory AND b.run = runs.run);
