// Package journal hashes rows and checks chains.
//
// Invariants:
//
//	J1. Every row's Prev is the hash of the row before it, the first row's is zero, and the hash covers every stored byte
//	    of the row (rules, invariant 1).
//	J2. The n rows of a command stand together with i = 0..n-1 and one time and actor; only row 0 carries the command.
package journal

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/forge-continuity/forge/models"
)

// RowHash returns SHA-256 over the tag "forge.row/1" and a zero byte, then format, rules, seq, cmd, i, n and at (8 bytes
// each, big-endian), prev (32 bytes), then factory, run, actor, kind, payload, command id, command name, command and env,
// each led by its length (4 bytes, big-endian; the last four are empty except in row 0 of a command), then the number of
// blob digests (4 bytes) and the digests in order. The bytes hashed are the bytes stored, never a re-encoding.
// Vectors: fixtures/vectors/formats.json.
func RowHash(r models.Row) models.Digest {
	b := make([]byte, 0, 1024)
	b = append(b, models.TagRow...)
	b = append(b, 0)
	for _, n := range [...]int64{r.Format, r.Rules, r.Seq, r.Cmd, r.I, r.N, int64(r.At)} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, r.Prev[:]...)
	for _, s := range [...]string{r.Factory, r.Run, r.Actor, r.Kind} {
		b = led(b, s)
	}
	b = led(b, r.Payload)
	b = led(b, r.CommandID)
	b = led(b, r.CommandName)
	b = led(b, r.Command)
	b = led(b, r.Env)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Blobs)))
	for _, d := range r.Blobs {
		b = append(b, d[:]...)
	}
	return sha256.Sum256(b)
}

func led[T string | []byte](to []byte, part T) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(part))), part...)
}

// Seal fills in Prev and Hash of rows that follow prev.
func Seal(prev models.Digest, rows []models.Row) {
	for i := range rows {
		rows[i].Prev = prev
		rows[i].Hash = RowHash(rows[i])
		prev = rows[i].Hash
	}
}

// Chain checks rows one by one (J1, J2). The zero value stands before the first row.
type Chain struct {
	Factory, Run string
	Seq, Cmd     int64
	Head         models.Digest
	last         models.Row
}

// Next checks that r follows. The refusal is journal_broken with the sequence number expected and what is wrong, or
// rules_newer where the format is not known here.
func (c *Chain) Next(r models.Row) *models.Refusal {
	want := c.Seq + 1
	broken := func(what string) *models.Refusal {
		return models.Refuse(models.CodeJournalBroken, models.D("seq", want), models.D("what", what))
	}
	switch {
	case r.Format > models.Format:
		return models.Refuse(models.CodeRulesNewer, models.D("format", r.Format), models.D("seq", want))
	case r.Format < 1:
		return broken("format")
	case r.Seq != want:
		return broken("sequence")
	case c.Seq > 0 && (r.Factory != c.Factory || r.Run != c.Run):
		return broken("journal")
	case r.Prev != c.Head:
		return broken("previous hash")
	case RowHash(r) != r.Hash:
		return broken("hash")
	}
	first := c.Seq == 0 || c.last.I == c.last.N-1
	switch {
	case r.N < 1 || r.I < 0 || r.I >= r.N:
		return broken("position in the command")
	case first && (r.I != 0 || r.Cmd != c.Cmd+1):
		return broken("first row of a command")
	case !first && (r.I != c.last.I+1 || r.N != c.last.N || r.Cmd != c.Cmd || r.At != c.last.At || r.Actor != c.last.Actor || r.Rules != c.last.Rules):
		return broken("row inside a command")
	case c.Seq > 0 && r.At < c.last.At:
		return broken("time")
	case r.I > 0 && (r.CommandID != "" || r.CommandName != "" || len(r.Command) > 0 || len(r.Env) > 0):
		return broken("command outside row 0")
	case r.I == 0 && (len(r.Command) == 0 || len(r.Env) == 0):
		return broken("no command in row 0")
	}
	c.Factory, c.Run, c.Seq, c.Cmd, c.Head, c.last = r.Factory, r.Run, r.Seq, r.Cmd, r.Hash, r
	return nil
}

// Whole reports whether the last command's rows are all there.
func (c *Chain) Whole() bool { return c.Seq == 0 || c.last.I == c.last.N-1 }
