package forge

import (
	"context"
	"net/http"
	"net/url"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// PolicyView is the policy document with the digest that names it.
type PolicyView struct {
	models.Policy
	Digest models.Digest `json:"policy_digest"`
}

// FactoryView is a factory as its principals see it. Host is the composition of the node that answered: what a profile
// must cover.
type FactoryView struct {
	Caller         models.Principal       `json:"caller"`
	Factory        string                 `json:"factory"`
	Fixture        bool                   `json:"fixture"`
	Head           models.Head            `json:"head"`
	Host           models.Host            `json:"host"`
	PolicyRevision int64                  `json:"policy_revision"`
	Principals     []PrincipalView        `json:"principals"`
	Profiles       []models.StoredProfile `json:"profiles"`
	Records        []models.Record        `json:"records"`
	Rules          int64                  `json:"rules"`
}

// PrincipalView is a principal and its label.
type PrincipalView struct {
	models.Principal
	Name string `json:"name"`
}

// Factory returns the factory that the token belongs to.
func (c *Client) Factory(ctx context.Context) (FactoryView, error) {
	return read[FactoryView](ctx, c, "/factory", nil)
}

// Policy returns the continuity policy as it stands, for administrators.
func (c *Client) Policy(ctx context.Context) (PolicyView, error) {
	return read[PolicyView](ctx, c, "/invalid-read-continuity/policy", nil)
}

// PutPolicy replaces the policy that has the revision named in p and returns the one that it made. Sending the same change
// again answers the same.
func (c *Client) PutPolicy(ctx context.Context, p models.Policy) (PolicyView, error) {
	body, err := canon.Marshal(p)
	if err != nil {
		return PolicyView{}, err
	}
	out, err := save[PolicyView](ctx, c, call{method: http.MethodPut, path: "/invalid-read-continuity/policy", body: body})
	return out.Receipt, err
}

// PrincipalPut sets the roles of a principal. Replaces is the authority revision it was read at, 0 for a new one. Name is a
// label for people and stands in no journal.
type PrincipalPut struct {
	Name     string   `json:"name,omitzero"`
	Removed  bool     `json:"removed"`
	Replaces int64    `json:"replaces"`
	Roles    []string `json:"roles"`
}

// PutPrincipal makes or changes a principal.
func (c *Client) PutPrincipal(ctx context.Context, command, id string, p PrincipalPut) (Saved[models.FactoryReceipt], error) {
	return c.change(ctx, http.MethodPut, "/principals/"+url.PathEscape(id), command, p)
}

// PutRecord sets a source, configuration or scope record.
func (c *Client) PutRecord(ctx context.Context, command, kind, name string, digest models.Digest) (Saved[models.FactoryReceipt], error) {
	return c.change(ctx, http.MethodPut, "/records/"+url.PathEscape(kind)+"/"+url.PathEscape(name), command, struct {
		Digest models.Digest `json:"digest"`
	}{digest})
}

// PutProfile registers a profile.
func (c *Client) PutProfile(ctx context.Context, command string, p models.Profile) (Saved[models.FactoryReceipt], error) {
	return c.change(ctx, http.MethodPut, "/profiles/"+url.PathEscape(p.ID), command, p)
}

// RetireProfile ends a profile for good.
func (c *Client) RetireProfile(ctx context.Context, command, id string) (Saved[models.FactoryReceipt], error) {
	return c.change(ctx, http.MethodDelete, "/profiles/"+url.PathEscape(id), command, nil)
}

func (c *Client) change(ctx context.Context, method, path, command string, body any) (Saved[models.FactoryReceipt], error) {
	r := call{method: method, path: path, command: command}
	if body != nil {
		var err error
		if r.body, err = canon.Marshal(body); err != nil {
			return Saved[models.FactoryReceipt]{}, err
		}
	}
	return save[models.FactoryReceipt](ctx, c, r)
}

// Token is a new credential. Secret is shown this once.
type Token struct {
	Secret string `json:"token"`
	ID     string `json:"token_id"`
}

// IssueToken makes a token for a principal, valid for 1 second to 366 days. Each call makes another one.
func (c *Client) IssueToken(ctx context.Context, principal string, lifetime models.Seconds) (Token, error) {
	body, err := canon.Marshal(struct {
		Lifetime  models.Seconds `json:"lifetime_seconds"`
		Principal string         `json:"principal"`
	}{lifetime, principal})
	if err != nil {
		return Token{}, err
	}
	out, err := save[Token](ctx, c, call{method: http.MethodPost, path: "/tokens", body: body})
	return out.Receipt, err
}

// RevokeToken ends a token.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	_, _, err := c.do(ctx, call{method: http.MethodDelete, path: "/tokens/" + url.PathEscape(id)})
	return err
}

// FactoryRows returns rows of the factory's own journal from the given number on.
func (c *Client) FactoryRows(ctx context.Context, from, limit int64) ([]Row, error) {
	out, err := read[struct {
		Rows []Row `json:"rows"`
	}](ctx, c, "/factory/rows", page("from", from, limit))
	return out.Rows, err
}
