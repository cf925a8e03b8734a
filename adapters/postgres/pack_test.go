package postgres

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// Bytes come back as they were, whichever way they are stored; stored bytes that were changed do not come back as others.
func TestPack(t *testing.T) {
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for _, c := range []struct {
		plain    []byte
		encoding string
	}{
		{nil, storedPlain}, {[]byte{0}, storedPlain}, {bytes.Repeat([]byte("a"), minPacked-1), storedPlain}, {noise, storedPlain},
		{bytes.Repeat([]byte("a"), minPacked), storedZstd}, {bytes.Repeat([]byte("ab\x00"), 1<<20), storedZstd},
	} {
		encoding, stored, err := pack(c.plain)
		if err != nil || encoding != c.encoding {
			t.Fatalf("%d bytes: %q, %v, want %q", len(c.plain), encoding, err, c.encoding)
		}
		if got, err := unpack(encoding, stored); err != nil || !bytes.Equal(got, c.plain) {
			t.Errorf("%d bytes came back as %d, %v", len(c.plain), len(got), err)
		}
	}
	_, stored, _ := pack(bytes.Repeat([]byte("0123456789"), 100))
	for i := range stored {
		broken := bytes.Clone(stored)
		broken[i] ^= 0x55
		if got, err := unpack(storedZstd, broken); err == nil && len(got) != 1000 {
			t.Errorf("byte %d changed: %d bytes", i, len(got))
		}
		if _, err := unpack(storedZstd, stored[:i]); err == nil {
			t.Errorf("%d of %d bytes are taken", i, len(stored))
		}
	}
	if _, err := unpack("lz9", nil); err == nil {
		t.Error("an unknown encoding is taken")
	}
}

// A checkpoint holds the whole history, so what a run keeps grows with the square of its turns. 50 turns of 2 KB of text
// that was not seen before and a checkpoint after each stay below 30 KB a turn as stored, of 60 KB as sent; the bound on a
// run counts what was sent.
func TestCheckpointsOfFiftyTurns(t *testing.T) {
	s := open(t, pgtest.Open(t))
	create(t, s, "f", "r")
	words := strings.Fields("the worker reads lists writes builds tests a file of this package and finds that its error is wrapped twice before anyone logs it")
	source := rand.New(rand.NewPCG(1, 2))
	history := `[{"kind":"request","parts":[{"content":"Look into it.","part_kind":"user-prompt","timestamp":"2026-01-01T00:00:00Z"}]}`
	var sent int64
	for turn := range 50 {
		var text strings.Builder
		for text.Len() < 1700 {
			fmt.Fprintf(&text, "%s %x ", words[source.IntN(len(words))], source.Uint32N(1<<20))
		}
		history += fmt.Sprintf(`,{"kind":"response","model_name":"gpt-5","parts":[{"args":{"path":"src/%x.go"},"part_kind":"tool-call","tool_call_id":"call_%d","tool_name":"read_run_evidence"}],"timestamp":"2026-01-01T00:00:00Z","usage":{"input_tokens":%d,"output_tokens":%d}},{"kind":"request","parts":[{"content":%q,"part_kind":"tool-return","tool_call_id":"call_%d","tool_name":"read_run_evidence","timestamp":"2026-01-01T00:00:00Z"}]}`,
			source.Uint32(), turn, source.IntN(9000), source.IntN(900), text.String(), turn)
		data := []byte(history + "]")
		sent += int64(len(data))
		if err := s.PutBlob(t.Context(), "f", "r", engine.Blob{Digest: models.PlainDigest(data), Data: data}, 1<<40); err != nil {
			t.Fatal(err)
		}
	}
	var stored, counted int64
	if err := s.pool.QueryRow(t.Context(), `SELECT (SELECT sum(octet_length(data)) FROM blobs), (SELECT blob_bytes FROM runs)`).Scan(&stored, &counted); err != nil {
		t.Fatal(err)
	}
	t.Logf("50 turns: %d bytes a turn as sent, %d as stored", sent/50, stored/50)
	if counted != sent {
		t.Errorf("%d bytes are counted, %d were sent", counted, sent)
	}
	if stored/50 > 30<<10 {
		t.Errorf("%d bytes a turn, want at most 30 KB", stored/50)
	}
	if n, err := s.Sweep(t.Context(), "f", -10); err != nil || n != 50 {
		t.Errorf("%d swept, %v", n, err)
	}
	if err := s.pool.QueryRow(t.Context(), `SELECT blob_bytes FROM runs`).Scan(&counted); err != nil || counted != 0 {
		t.Errorf("%d bytes are counted after the sweep, %v", counted, err)
	}
}
