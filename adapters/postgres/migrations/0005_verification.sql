-- verify says that automatic verification is to enter the run: a round was completed since the last one and nobody works on it. The
-- scheduler lists such runs; a recorded refusal takes a run off for good.

-- +goose Up
ALTER TABLE runs ADD COLUMN verify boolean NOT NULL DEFAULT false;

CREATE INDEX runs_verify ON runs (factory, run) WHERE verify;
