package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// PutBlob implements engine.Blobs. It is ErrNotFound when there is no such run, or no such factory for one without run.
func (s *Store) PutBlob(ctx context.Context, factory, run string, b engine.Blob, limit int64) error {
	const owner = `SELECT 0, EXISTS (SELECT 1 FROM blobs WHERE factory = ?1 AND run = '' AND digest = ?3) FROM factories WHERE factory = ?1 AND ?2 = ''
		UNION ALL SELECT blob_bytes, EXISTS (SELECT 1 FROM blobs WHERE factory = ?1 AND run = ?2 AND digest = ?3) FROM runs WHERE factory = ?1 AND run = ?2`
	doing := fmt.Sprintf("put blob of factory %s run %q", factory, run)
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return storeError(doing, err)
	}
	defer func() { _ = tx.Rollback() }()
	var bytes int64
	var had bool
	if err := tx.QueryRowContext(ctx, owner, factory, run, b.Digest[:]).Scan(&bytes, &had); err != nil {
		return storeError(doing, err)
	}
	if run != "" && !had && bytes+int64(len(b.Data)) > limit {
		return fmt.Errorf("%s: %w", doing, engine.ErrFull)
	}
	if err := s.keep(ctx, tx, factory, run, b, now()); err != nil {
		return storeError(doing, err)
	}
	return storeError(doing, tx.Commit())
}

// Blob implements engine.Blobs.
func (s *Store) Blob(ctx context.Context, factory, run string, digest models.Digest) ([]byte, error) {
	const text = `SELECT data, encoding, key_id FROM blobs WHERE factory = ? AND run = ? AND digest = ?`
	doing := "read blob " + digest.String()
	var (
		data     []byte
		encoding string
		key      sql.NullString
	)
	if err := s.readers.QueryRowContext(ctx, text, factory, run, digest[:]).Scan(&data, &encoding, &key); err != nil {
		return nil, storeError(doing, err)
	}
	if encoding != "none" || key.Valid {
		return nil, fmt.Errorf("%s: encoding %q with key %q needs a newer build", doing, encoding, key.String)
	}
	return whole(data), nil
}

// PutModule implements engine.Modules.
func (s *Store) PutModule(ctx context.Context, digest models.Digest, data []byte) error {
	const text = `INSERT INTO modules (digest, data) VALUES (?, ?) ON CONFLICT DO NOTHING`
	_, err := s.writer.ExecContext(ctx, text, digest[:], whole(data))
	return storeError("put module "+digest.String(), err)
}

// Module implements engine.Modules.
func (s *Store) Module(ctx context.Context, digest models.Digest) ([]byte, error) {
	var data []byte
	err := s.readers.QueryRowContext(ctx, `SELECT data FROM modules WHERE digest = ?`, digest[:]).Scan(&data)
	return data, storeError("read module "+digest.String(), err)
}

// ListModules implements engine.Modules.
func (s *Store) ListModules(ctx context.Context) ([]engine.KeptModule, error) {
	const doing = "list modules"
	rows, err := s.readers.QueryContext(ctx, `SELECT digest, octet_length(data) FROM modules ORDER BY digest`)
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
	const text = `INSERT INTO tokens (hash, factory, id, principal, expires_at, revoked) VALUES (?, ?, ?, ?, ?, ?)`
	_, err := s.writer.ExecContext(ctx, text, t.Hash[:], t.Factory, t.ID, t.Principal, t.ExpiresAt, t.Revoked)
	return storeError("put token "+t.ID, err)
}

// Token implements engine.Credentials. A revoked or expired token is returned too and says so.
func (s *Store) Token(ctx context.Context, hash models.Digest) (engine.Presented, error) {
	const text = `SELECT factory, id, principal, expires_at, revoked FROM tokens WHERE hash = ?`
	p := engine.Presented{Token: engine.Token{Hash: hash}}
	t := &p.Token
	err := s.readers.QueryRowContext(ctx, text, hash[:]).Scan(&t.Factory, &t.ID, &t.Principal, &t.ExpiresAt, &t.Revoked)
	if err != nil {
		return engine.Presented{}, storeError("read token", err)
	}
	if p.Factory, err = s.Factory(ctx, t.Factory); err != nil && !errors.Is(err, engine.ErrNotFound) {
		return engine.Presented{}, err
	}
	p.Now, err = s.Now(ctx)
	return p, err
}

// RevokeToken implements engine.Credentials. Revoking twice is no error.
func (s *Store) RevokeToken(ctx context.Context, factory, id string) error {
	res, err := s.writer.ExecContext(ctx, `UPDATE tokens SET revoked = 1 WHERE factory = ? AND id = ?`, factory, id)
	if err != nil {
		return storeError("revoke token "+id, err)
	}
	if n, err := res.RowsAffected(); err == nil && n == 0 {
		return storeError("revoke token "+id, sql.ErrNoRows)
	}
	return nil
}

// PutName implements engine.Credentials; an empty principal names the factory.
func (s *Store) PutName(ctx context.Context, factory, principal, name string) error {
	const text = `INSERT INTO names (factory, principal, name) VALUES (?, ?, ?)
		ON CONFLICT (factory, principal) DO UPDATE SET name = excluded.name`
	_, err := s.writer.ExecContext(ctx, text, factory, principal, name)
	return storeError("put name of "+principal, err)
}

// Name implements engine.Credentials.
func (s *Store) Name(ctx context.Context, factory, principal string) (string, error) {
	var name string
	err := s.readers.QueryRowContext(ctx, `SELECT name FROM names WHERE factory = ? AND principal = ?`, factory, principal).Scan(&name)
	return name, storeError("read name of "+principal, err)
}
