package models

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// Digest is a SHA-256. Its JSON form is 64 lower-case hex digits; the zero value means "none" and is written as "".
type Digest [32]byte

// Domain tags. A tag belongs to one kind of thing for ever (docs/FORMATS.md).
const (
	TagRow          = "forge.row/1"
	TagBlob         = "forge.blob/1"
	TagCommand      = "forge.command/1"
	TagRun          = "forge.run/1"
	TagPolicy       = "forge.policy/1"
	TagProfile      = "forge.profile/1"
	TagCustody      = "forge.custody/1"
	TagGraph        = "forge.graph/1"
	TagCandidate    = "forge.candidate/1"
	TagSource       = "forge.source/1"
	TagSeal         = "forge.seal/1"
	TagBinding      = "forge.binding/1"
	TagProof        = "forge.proof/1"
	TagRegistration = "forge.registration/1"
	TagHead         = "forge.head/1"
	TagRecovery     = "forge.recovery/1"
	TagTicket       = "forge.ticket/1"
)

// Tagged returns SHA-256 over the tag, a zero byte, and each part led by its length (8 bytes, big-endian).
func Tagged(tag string, parts ...[]byte) Digest {
	h := sha256.New()
	h.Write([]byte(tag))
	h.Write([]byte{0})
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	return Digest(h.Sum(nil))
}

// SaltedBlob returns the digest that names a run's blob: Tagged(TagBlob, salt, data), over the bytes as received. The
// salt is the run's 32 random bytes, so that erasing salt and bytes leaves nothing to guess against.
func SaltedBlob(salt [32]byte, data []byte) Digest { return Tagged(TagBlob, salt[:], data) }

// PlainDigest is SHA-256 with no tag and no salt: only for bytes that outsiders compare (wire bytes, validator source,
// guest module, factory reports).
func PlainDigest(data []byte) Digest { return sha256.Sum256(data) }

// IsZero reports whether d is "none".
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns the JSON form.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return hex.EncodeToString(d[:])
}

// AppendText implements encoding.TextAppender.
func (d Digest) AppendText(b []byte) ([]byte, error) {
	if d.IsZero() {
		return b, nil
	}
	return hex.AppendEncode(b, d[:]), nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return d.AppendText(nil) }

// UnmarshalText accepts 64 lower-case hex digits, or nothing for "none".
func (d *Digest) UnmarshalText(b []byte) error {
	parsed, err := ParseDigest(string(b))
	if err != nil && len(b) > 0 {
		return err
	}
	*d = parsed
	return nil
}

var errDigest = errors.New("a digest is 64 lower-case hex digits")

// ParseDigest reads the JSON form of a digest that must be present.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != 64 {
		return d, errDigest
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return d, errDigest
		}
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil {
		return d, fmt.Errorf("%w: %w", errDigest, err)
	}
	if d.IsZero() {
		return d, errors.New("the zero digest names nothing")
	}
	return d, nil
}
