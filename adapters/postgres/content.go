package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// PutBlob implements engine.Blobs. It is ErrNotFound when there is no such run, or no such factory for one without run.
func (s *Store) PutBlob(ctx context.Context, factory, run string, b engine.Blob, limit int64) error {
	doing := fmt.Sprintf("put blob of factory %s run %q", factory, run)
	ctx, cancel := context.WithTimeout(ctx, appendTime)
	defer cancel()
	encoding, stored, err := pack(b.Data)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return storeError(doing, err)
	}
	defer s.release(ctx, conn)
	var bytes int64
	var at models.Instant
	var had bool
	first := &pgx.Batch{}
	first.Queue(beginSQL)
	first.Queue(`SELECT FROM factories WHERE factory = $1`, factory).QueryRow(func(row pgx.Row) error { return row.Scan() })
	if run != "" {
		first.Queue(`SELECT blob_bytes FROM runs WHERE factory = $1 AND run = $2 FOR UPDATE`, factory, run).QueryRow(func(row pgx.Row) error { return row.Scan(&bytes) })
	}
	first.Queue(`SELECT EXISTS (SELECT FROM blobs WHERE factory = $1 AND run = $2 AND digest = $3), `+clock, factory, run, b.Digest[:]).QueryRow(
		func(row pgx.Row) error { return row.Scan(&had, &at) })
	err = send(ctx, conn, first)
	switch {
	case err != nil:
	case run != "" && !had && bytes+int64(len(b.Data)) > limit:
		err = engine.ErrFull
	default:
		second := &pgx.Batch{}
		second.Queue(putBlobSQL, factory, run, b.Digest[:], stored, at, encoding, len(b.Data))
		err = commit(ctx, conn, second)
	}
	if errors.Is(err, engine.ErrFull) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return storeError(doing, err)
}

// Blob implements engine.Blobs.
func (s *Store) Blob(ctx context.Context, factory, run string, digest models.Digest) ([]byte, error) {
	const text = `SELECT data, encoding, key_id FROM blobs WHERE factory = $1 AND run = $2 AND digest = $3`
	doing := "read blob " + digest.String()
	var (
		data     []byte
		encoding string
		key      *string
	)
	if err := s.pool.QueryRow(ctx, text, factory, run, digest[:]).Scan(&data, &encoding, &key); err != nil {
		return nil, storeError(doing, err)
	}
	if key != nil {
		return nil, fmt.Errorf("%s: its key needs a newer build", doing)
	}
	plain, err := unpack(encoding, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return plain, nil
}

// PutModule implements engine.Modules.
func (s *Store) PutModule(ctx context.Context, digest models.Digest, data []byte) error {
	const text = `INSERT INTO modules (digest, data) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	_, err := s.pool.Exec(ctx, text, digest[:], whole(data))
	return storeError("put module "+digest.String(), err)
}

// Module implements engine.Modules.
func (s *Store) Module(ctx context.Context, digest models.Digest) ([]byte, error) {
	var data []byte
	err := s.pool.QueryRow(ctx, `SELECT data FROM modules WHERE digest = $1`, digest[:]).Scan(&data)
	return data, storeError("read module "+digest.String(), err)
}

// ListModules implements engine.Modules.
func (s *Store) ListModules(ctx context.Context) ([]engine.KeptModule, error) {
	const doing = "list modules"
	rows, err := s.pool.Query(ctx, `SELECT digest, octet_length(data) FROM modules ORDER BY digest`)
	if err != nil {
		return nil, storeError(doing, err)
	}
	defer rows.Close()
	var list []engine.KeptModule
	for rows.Next() {
		var digest []byte
		var m engine.KeptModule
		if err := rows.Scan(&digest, &m.Bytes); err != nil {
			return nil, storeError(doing, err)
		}
		copy(m.Digest[:], digest)
		list = append(list, m)
	}
	return list, storeError(doing, rows.Err())
}

// PutToken implements engine.Credentials. A hash, or an id in the factory, that is there already is ErrTaken.
func (s *Store) PutToken(ctx context.Context, t engine.Token) error {
	const text = `INSERT INTO tokens (hash, factory, id, principal, expires_at, revoked) VALUES ($1, $2, $3, $4, $5, $6)`
	_, err := s.pool.Exec(ctx, text, t.Hash[:], t.Factory, t.ID, t.Principal, t.ExpiresAt, t.Revoked)
	return storeError("put token "+t.ID, err)
}

// Token implements engine.Credentials. A revoked or expired token is returned too and says so.
func (s *Store) Token(ctx context.Context, hash models.Digest) (engine.Presented, error) {
	const text = `SELECT t.factory, t.id, t.principal, t.expires_at, t.revoked, ` + clock + `, ` + factoryColumns + `
		FROM tokens t LEFT JOIN factories f ON f.factory = t.factory WHERE t.hash = $1`
	p := engine.Presented{Token: engine.Token{Hash: hash}}
	t, c := &p.Token, &p.Factory
	var seq, rules *int64
	var at *models.Instant
	var head some
	err := s.pool.QueryRow(ctx, text, hash[:]).Scan(&t.Factory, &t.ID, &t.Principal, &t.ExpiresAt, &t.Revoked, &p.Now, &seq, &head, &at, &rules, (*some)(&c.State))
	if err != nil {
		return engine.Presented{}, storeError("read token", err)
	}
	if seq != nil {
		c.Head, c.At, c.Rules = models.Head{Seq: *seq, Hash: models.Digest(head)}, *at, *rules
	}
	return p, nil
}

// RevokeToken implements engine.Credentials. Revoking twice is no error.
func (s *Store) RevokeToken(ctx context.Context, factory, id string) error {
	tag, err := s.pool.Exec(ctx, `UPDATE tokens SET revoked = true WHERE factory = $1 AND id = $2`, factory, id)
	if err == nil && tag.RowsAffected() == 0 {
		err = pgx.ErrNoRows
	}
	return storeError("revoke token "+id, err)
}

// PutName implements engine.Credentials; an empty principal names the factory.
func (s *Store) PutName(ctx context.Context, factory, principal, name string) error {
	const text = `INSERT INTO names (factory, principal, name) VALUES ($1, $2, $3)
		ON CONFLICT (factory, principal) DO UPDATE SET name = excluded.name`
	_, err := s.pool.Exec(ctx, text, factory, principal, name)
	return storeError("put name of "+principal, err)
}

// Name implements engine.Credentials.
func (s *Store) Name(ctx context.Context, factory, principal string) (string, error) {
	var name string
	err := s.pool.QueryRow(ctx, `SELECT name FROM names WHERE factory = $1 AND principal = $2`, factory, principal).Scan(&name)
	return name, storeError("read name of "+principal, err)
}
