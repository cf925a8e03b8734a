package engine

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/forge-continuity/forge/models"
)

// tokenPrefix makes a leaked token easy to recognise.
const tokenPrefix = "forge_"

// tagToken is the domain of stored token hashes.
const tagToken = "forge.token/1"

// Authenticate returns the caller that a secret stands for. The refusal is identity_missing for every kind of no: unknown,
// expired, revoked, or a principal that the factory has removed.
func (e *Engine) Authenticate(ctx context.Context, secret string) (Caller, error) {
	no := models.Refuse(models.CodeIdentityMissing)
	if !strings.HasPrefix(secret, tokenPrefix) || len(secret) > 128 {
		return Caller{}, no
	}
	hash := models.Tagged(tagToken, []byte(secret))
	return mending(ctx, e, func() (Caller, error) {
		p, err := e.store.Token(ctx, hash)
		if errors.Is(err, ErrNotFound) {
			return Caller{}, no
		}
		if err != nil {
			return Caller{}, unavailable(err)
		}
		t := p.Token
		if subtle.ConstantTimeCompare(hash[:], t.Hash[:]) != 1 || t.Revoked || t.ExpiresAt != 0 && p.Now >= t.ExpiresAt {
			return Caller{}, no
		}
		f, err := decodeFactory(t.Factory, p.Factory)
		if err != nil {
			return Caller{}, err
		}
		if _, ok := f.Principal(t.Principal); !ok {
			return Caller{}, no
		}
		return Caller{Factory: t.Factory, Principal: t.Principal}, nil
	})
}

// IssueToken makes a secret for a principal of the factory. It is shown once and stored only as a hash; lifetime 0 never
// expires. The tokens of a principal that is removed are revoked for good, also one that is issued at that moment.
func (e *Engine) IssueToken(ctx context.Context, factory, principal string, lifetime models.Seconds) (secret, id string, err error) {
	var raw [40]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", "", err
	}
	id = hex.EncodeToString(raw[:8])
	secret = tokenPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(raw[8:])
	t := Token{Hash: models.Tagged(tagToken, []byte(secret)), ID: id, Factory: factory, Principal: principal}
	if lifetime > 0 {
		now, err := e.store.Now(ctx)
		if err != nil {
			return "", "", unavailable(err)
		}
		t.ExpiresAt = now.Add(lifetime)
	}
	if err := e.store.PutToken(ctx, t); err != nil {
		return "", "", e.outcome(err)
	}
	// Only now: a removal from here on meets the token, and one that came before is seen.
	f, err := e.factory(ctx, factory)
	if err != nil {
		return "", "", err
	}
	if _, ok := f.Principal(principal); !ok {
		return "", "", errors.Join(models.Refuse(models.CodeNotFound), e.outcome(e.store.RevokeToken(ctx, factory, id)))
	}
	return secret, id, nil
}

// RevokeToken ends a token of the factory.
func (e *Engine) RevokeToken(ctx context.Context, factory, id string) error {
	return e.outcome(e.store.RevokeToken(ctx, factory, id))
}
