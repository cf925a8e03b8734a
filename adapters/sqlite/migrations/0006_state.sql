-- PostgreSQL stores the state of a run in another way from this number on; here nothing changes.

-- +goose Up
SELECT 1;
