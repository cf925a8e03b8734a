package kernel_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/kernel/journal"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/proptest/world"
	"pgregory.net/rapid"
)

// replay folds the rows of a run over a factory's journal that verifies.
func replay(w *world.World, rows []models.Row) (kernel.State, *models.Refusal) {
	return kernel.Replay(slices.Values(rows), w.History())
}

// stoodOn is the row of the factory's journal that the command of a row names.
func stoodOn(t *testing.T, rows []models.Row, r models.Row) int64 {
	t.Helper()
	env, err := models.OpenEnv(rows[r.Seq-1-r.I].Env)
	if err != nil {
		t.Fatal(err)
	}
	return env.FactoryHead.Seq
}

// A state is shared by who remembers it, so folding on from it changes neither it nor what was folded on from it before; and it is
// what its text says, so nothing of it stands outside that.
func TestStatesMayBeShared(t *testing.T) {
	w := world.Everything()
	s := kernel.State{Factory: world.Factory, Run: world.Run}
	var states []kernel.State
	var texts [][]byte
	keep := func(s kernel.State) { states, texts = append(states, s), append(texts, s.Encode()) }
	var events []models.Event
	for _, r := range w.Rows {
		e, err := models.DecodeEvent(r.Kind, r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		before := s
		s = kernel.Fold(before, r, e, 1)
		keep(s)
		for _, other := range events {
			keep(kernel.Fold(before, r, other, 1))
		}
		events = append(events, e)
	}
	r := w.Rows[len(w.Rows)-1]
	for n := range int64(3) { // so many that a list has room behind its end
		s = kernel.Fold(s, r, models.CommandStarted{Number: 100 + n}, 1)
	}
	keep(kernel.Fold(s, r, models.CommandStarted{Number: 103}, 1))
	keep(kernel.Fold(s, r, models.CommandStarted{Number: 104}, 1))
	for i, s := range states {
		if !bytes.Equal(s.Encode(), texts[i]) {
			t.Fatalf("state %d was changed by folding on", i)
		}
	}
	written(t, reflect.TypeFor[kernel.State]())
}

// written fails for a field that no text holds.
func written(t *testing.T, typ reflect.Type) {
	eachStruct(typ, func(typ reflect.Type) {
		for i := range typ.NumField() {
			if f := typ.Field(i); f.Tag.Get("json") == "" || strings.HasPrefix(f.Tag.Get("json"), "-") {
				t.Errorf("%s.%s stands in no text", typ, f.Name)
			}
		}
	})
}

// eachStruct calls f for each struct that a value of the type is made of.
func eachStruct(typ reflect.Type, f func(reflect.Type)) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		eachStruct(typ.Elem(), f)
	case reflect.Struct:
		f(typ)
		for i := range typ.NumField() {
			eachStruct(typ.Field(i).Type, f)
		}
	case reflect.Map, reflect.Interface, reflect.Func, reflect.Chan:
		panic(fmt.Sprintf("%s in a state", typ))
	}
}

// Members stand in the order in which they are written: text in another order would have to be sorted at each row.
func TestMembersRise(t *testing.T) {
	types := map[reflect.Type]bool{reflect.TypeFor[kernel.State](): true, reflect.TypeFor[models.Factory](): true, reflect.TypeFor[models.Env](): true}
	w := world.Everything()
	for _, r := range slices.Concat(w.Rows, w.FactoryRows) {
		e, err := models.DecodeEvent(r.Kind, r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		types[reflect.TypeOf(e)] = true
		if r.I > 0 || r.CommandName == (models.Append{}).Verb() {
			continue
		}
		c, err := models.DecodeCommand(r.CommandName, r.Command)
		if err != nil {
			t.Fatal(err)
		}
		types[reflect.TypeOf(c)] = true
	}
	for typ := range types {
		eachStruct(typ, func(typ reflect.Type) {
			last := ""
			for i := range typ.NumField() {
				name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
				if name == "-" || name == "" {
					continue
				}
				if name <= last {
					t.Errorf("%s: %s is declared behind %s", typ, name, last)
				}
				last = name
			}
		})
	}
}

// K1: one by one, all at once, and out of the cache in between.
func TestReplayEqualsOneByOne(t *testing.T) {
	w := world.Everything()
	verify(t, w)
	kinds := map[string]bool{}
	s := kernel.State{Factory: world.Factory, Run: world.Run}
	for _, r := range w.Rows {
		kinds[r.Kind] = true
		e, err := models.DecodeEvent(r.Kind, r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		s = kernel.Fold(s, r, e, stoodOn(t, w.Rows, r))
		again, err := kernel.DecodeState(s.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if kernel.Fingerprint(again) != kernel.Fingerprint(s) || !bytes.Equal(again.Encode(), s.Encode()) {
			t.Fatalf("row %d: the state is another one after encoding", r.Seq)
		}
		s = again
	}
	if kernel.Fingerprint(s) != kernel.Fingerprint(w.State) {
		t.Errorf("one by one\n%s\nwant\n%s", s.Encode(), w.State.Encode())
	}
	f := models.Factory{}
	for _, r := range w.FactoryRows {
		kinds[r.Kind] = true
		e, err := models.DecodeEvent(r.Kind, r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		f = kernel.FoldFactory(f, r, e)
		again, err := kernel.DecodeFactory(kernel.EncodeFactory(f))
		if err != nil || !bytes.Equal(kernel.EncodeFactory(again), kernel.EncodeFactory(f)) {
			t.Fatalf("row %d of the factory: %v", r.Seq, err)
		}
		f = again
	}
	if !bytes.Equal(kernel.EncodeFactory(f), kernel.EncodeFactory(w.FactoryState)) || !bytes.Equal(kernel.EncodeFactory(w.History().Last()), kernel.EncodeFactory(f)) {
		t.Error("factory one by one differs")
	}
	for _, kind := range []string{
		"agentic_tool_unknown", "attempt.opened", "call.granted", "call.intended", "call.refused", "call.returned", "checkpoint.saved",
		"claim.released", "claim.taken", "command.finished", "command.started", "effect.reconciled", "lease.granted", "lease.lapsed",
		"migration.settled", "request.issued", "response.consumed", "response.kept", "round.completed", "run.completed", "run.failed",
		"run.registered", "startup.annotated", "worker.failed",
		"factory.created", "policy.put", "principal.put", "profile.registered", "profile.retired", "record.put",
	} {
		if !kinds[kind] {
			t.Errorf("no row of kind %s", kind)
		}
	}
	if n := w.History().Last().Seq; n != int64(len(w.FactoryRows)) {
		t.Errorf("history of %d rows", n)
	}
}

// fields are the parts of a row, each with a change that every value of it allows.
var fields = map[string]func(*models.Row){
	"format":       func(r *models.Row) { r.Format++ },
	"format 0":     func(r *models.Row) { r.Format = 0 },
	"rules":        func(r *models.Row) { r.Rules++ },
	"rules 0":      func(r *models.Row) { r.Rules = 0 },
	"factory":      func(r *models.Row) { r.Factory += "x" },
	"run":          func(r *models.Row) { r.Run += "x" },
	"seq":          func(r *models.Row) { r.Seq++ },
	"cmd":          func(r *models.Row) { r.Cmd++ },
	"i":            func(r *models.Row) { r.I++ },
	"n":            func(r *models.Row) { r.N++ },
	"at":           func(r *models.Row) { r.At++ },
	"at back":      func(r *models.Row) { r.At-- },
	"actor":        func(r *models.Row) { r.Actor += "x" },
	"kind":         func(r *models.Row) { r.Kind += "x" },
	"kind other":   func(r *models.Row) { r.Kind = "lease.lapsed" },
	"payload":      func(r *models.Row) { r.Payload = flip(r.Payload, len(r.Payload)/2) },
	"no payload":   func(r *models.Row) { r.Payload = nil },
	"blob":         func(r *models.Row) { r.Blobs = append(slices.Clone(r.Blobs), world.Plain("x")) },
	"no blobs":     func(r *models.Row) { r.Blobs = append(slices.Clone(r.Blobs), models.Digest{}) },
	"command id":   func(r *models.Row) { r.CommandID += "x" },
	"command name": func(r *models.Row) { r.CommandName += "x" },
	"command":      func(r *models.Row) { r.Command = append(slices.Clone(r.Command), ' ') },
	"env":          func(r *models.Row) { r.Env = append(slices.Clone(r.Env), ' ') },
	"prev":         func(r *models.Row) { r.Prev[7] ^= 1 },
	"hash":         func(r *models.Row) { r.Hash[7] ^= 1 },
}

func flip(b []byte, i int) []byte {
	b = slices.Clone(b)
	b[i] ^= 1
	return b
}

// turns are the rows that a case looks at: in the short form every fifth, another fifth for each case.
func turns(rows, n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range rows {
			if (os.Getenv("RAPID_CHECKS") != "" || i%5 == n%5) && !yield(i) {
				return
			}
		}
	}
}

// ELIG-01: a change of any field of any row is found, and the row is named.
func TestEveryFieldOfEveryRowIsBound(t *testing.T) {
	w := world.Held()
	history := w.History()
	for n, name := range slices.Sorted(maps.Keys(fields)) {
		t.Run(name, func(t *testing.T) {
			for i := range w.Rows {
				rows := slices.Clone(w.Rows)
				fields[name](&rows[i])
				var chain journal.Chain
				for at, row := range rows {
					if r := chain.Next(row); r != nil {
						named(t, r, i)
						break
					} else if at == len(rows)-1 {
						t.Fatalf("row %d: the chain holds", i+1)
					}
				}
			}
			for i := range turns(len(w.Rows), n) {
				rows := slices.Clone(w.Rows)
				fields[name](&rows[i])
				_, r := kernel.Replay(slices.Values(rows), history)
				named(t, r, i)
			}
			for i := range w.FactoryRows {
				rows := slices.Clone(w.FactoryRows)
				fields[name](&rows[i])
				_, r := kernel.ReplayFactory(slices.Values(rows))
				named(t, r, i)
			}
		})
	}
}

// named checks that a refusal names row i.
func named(t *testing.T, r *models.Refusal, i int) {
	t.Helper()
	if r == nil || r.Code != models.CodeJournalBroken && r.Code != models.CodeRulesNewer {
		t.Fatalf("row %d: %v", i+1, r)
	}
	if seq := r.Detail("seq"); seq != strconv.Itoa(i+1) {
		t.Fatalf("row %d: %v", i+1, r)
	}
}

// Any byte of a row's texts, one bit each.
func TestEveryByteIsBound(t *testing.T) {
	w := world.Held()
	for i := range w.Rows {
		row := w.Rows[i]
		for _, part := range []struct {
			bytes []byte
			set   func(*models.Row, []byte)
		}{
			{row.Payload, func(r *models.Row, b []byte) { r.Payload = b }},
			{row.Command, func(r *models.Row, b []byte) { r.Command = b }},
			{row.Env, func(r *models.Row, b []byte) { r.Env = b }},
		} {
			for at := range part.bytes {
				r := row
				part.set(&r, flip(part.bytes, at))
				if journal.RowHash(r) == row.Hash {
					t.Fatalf("row %d: byte %d is not hashed", i+1, at)
				}
			}
		}
	}
}

// The same with the row, and all after it, sealed anew by someone who can hash: the row's own text no longer agrees with
// its command, or the head is another one.
func TestResealedRowsAreFound(t *testing.T) {
	w := world.Held()
	history := w.History()
	head := w.State.Head.Hash
	for n, name := range slices.Sorted(maps.Keys(fields)) {
		t.Run(name, func(t *testing.T) {
			for i := range turns(len(w.Rows), n) {
				rows := slices.Clone(w.Rows)
				fields[name](&rows[i])
				var prev models.Digest
				if i > 0 {
					prev = rows[i-1].Hash
				}
				journal.Seal(prev, rows[i:])
				s, r := kernel.Replay(slices.Values(rows), history)
				switch {
				case name == "hash" || name == "prev": // sealed back to what it was
					if r != nil {
						t.Fatalf("row %d: %v", i+1, r)
					}
				case r == nil && s.Head.Hash == head:
					t.Fatalf("row %d: verifies with the same head", i+1)
				case r == nil && name != "command id" && !(name == "at" || name == "at back"):
					t.Fatalf("row %d: verifies", i+1)
				case r != nil && r.Code != models.CodeJournalBroken && r.Code != models.CodeRulesNewer:
					t.Fatalf("row %d: %v", i+1, r)
				}
			}
		})
	}
}

// Rows dropped, swapped and repeated.
func TestRowsStandInTheirPlaces(t *testing.T) {
	w := world.Held()
	history := w.History()
	broken := func(what string, rows []models.Row) {
		t.Helper()
		if _, r := kernel.Replay(slices.Values(rows), history); r == nil || r.Code != models.CodeJournalBroken {
			t.Fatalf("%s: %v", what, r)
		}
	}
	for i := range turns(len(w.Rows), 1) {
		if i < len(w.Rows)-1 {
			broken("dropped", slices.Delete(slices.Clone(w.Rows), i, i+1))
			swapped := slices.Clone(w.Rows)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			broken("swapped", swapped)
		}
		broken("repeated", slices.Insert(slices.Clone(w.Rows), i, w.Rows[i]))
		if cut := w.Rows[:i]; i > 0 && cut[i-1].I < cut[i-1].N-1 {
			broken("cut within a command", cut)
		} else if s, r := kernel.Replay(slices.Values(cut), history); r != nil || s.Head.Hash == w.State.Head.Hash {
			t.Fatalf("cut at %d: %v", i, r)
		}
	}
	other := world.Held(func(g *models.Registration) { g.Attempt = 2 })
	broken("of another run", slices.Concat(w.Rows[:10], other.Rows[10:]))
}

// A run's rows stand on the factory's: changed, shortened or of another factory, they no longer do.
func TestFactoryJournalIsBound(t *testing.T) {
	w := world.Held()
	short, r := kernel.ReplayFactory(slices.Values(w.FactoryRows[:5]))
	if r != nil {
		t.Fatal(r)
	}
	_, r = kernel.Replay(slices.Values(w.Rows), short)
	is(t, r, models.CodeJournalBroken, "seq", "1")
	_, r = kernel.Replay(slices.Values(w.Rows), kernel.History{})
	is(t, r, models.CodeJournalBroken, "seq", "1")

	other := world.Empty()
	other.Tick(7)
	other.MustFactory(world.Root, models.CreateFactory{})
	for _, p := range w.FactoryState.Principals[1:] {
		other.MustFactory(world.Root, models.PutPrincipal{ID: p.ID + "x", Roles: p.Roles})
	}
	_, r = kernel.Replay(slices.Values(w.Rows), other.History())
	is(t, r, models.CodeJournalBroken, "seq", "1")

	// A row may not stand on an older factory than the one before it, as if a revocation had not been seen.
	w = world.Executing()
	before := kernel.FactoryHead(w.FactoryState)
	old := w.FactoryState
	w.Policy(func(p *models.Policy) { p.Enabled = false })
	w.MustAppend(w.Asked()...)
	c := models.Append{Facts: []models.Fact{w.Answered()}, Fence: 1}
	env := w.Env(world.Worker, "stale", c)
	env.Factory, env.FactoryHead = old, before
	events, r := kernel.Decide(w.State, "stale", c, env)
	if r != nil {
		t.Fatal(r)
	}
	rows, _, err := kernel.Rows(w.State, "stale", c, env, events)
	if err != nil {
		t.Fatal(err)
	}
	_, r = replay(w, slices.Concat(w.Rows, rows))
	is(t, r, models.CodeJournalBroken, "seq", strconv.FormatInt(rows[0].Seq, 10))
}

// reseal makes row i another one and seals everything from there on.
func reseal(rows []models.Row, i int, change func(*models.Row)) []models.Row {
	rows = slices.Clone(rows)
	change(&rows[i])
	var prev models.Digest
	if i > 0 {
		prev = rows[i-1].Hash
	}
	journal.Seal(prev, rows[i:])
	return rows
}

// What a later build wrote is refused by name, not called damage, and never folded.
func TestNewerIsRefusedByName(t *testing.T) {
	w := world.Held()
	history := w.History()
	member := func(b []byte) []byte { return append([]byte(`{"a_new_member":1,`), b[1:]...) }
	for name, change := range map[string]func(*models.Row){
		"format":         func(r *models.Row) { r.Format = 2 },
		"rules":          func(r *models.Row) { r.Rules = 2 },
		"kind":           func(r *models.Row) { r.Kind = "run.paused" },
		"payload member": func(r *models.Row) { r.Payload = member(r.Payload) },
		"command":        func(r *models.Row) { r.CommandName = "pause_run" },
		"command member": func(r *models.Row) { r.Command = member(r.Command) },
		"fact":           func(r *models.Row) { r.Command = []byte(`{"facts":[{"data":{},"kind":"thought.had"}],"fence":1}`) },
		"env member":     func(r *models.Row) { r.Env = member(r.Env) },
	} {
		t.Run(name, func(t *testing.T) {
			i := 3 // the first append
			if name == "fact" && w.Rows[i].CommandName != "append" {
				t.Fatalf("row %d is of %s", i+1, w.Rows[i].CommandName)
			}
			s, r := kernel.Replay(slices.Values(reseal(w.Rows, i, change)), history)
			is(t, r, models.CodeRulesNewer, "seq", strconv.Itoa(i+1))
			if s.Head.Seq != int64(i) {
				t.Errorf("folded up to %d", s.Head.Seq)
			}
			if name == "fact" {
				return
			}
			_, r = kernel.ReplayFactory(slices.Values(reseal(w.FactoryRows, len(w.FactoryRows)-1, change)))
			is(t, r, models.CodeRulesNewer)
		})
	}
	// Old builds meeting an old number that never was.
	_, r := kernel.Replay(slices.Values(reseal(w.Rows, 3, func(r *models.Row) { r.Format = 0 })), history)
	is(t, r, models.CodeJournalBroken)
}

// A command of the other kind of journal is damage, and no panic.
func TestCommandsOfTheOtherJournal(t *testing.T) {
	w := world.Held()
	create := func(r *models.Row) { r.CommandName, r.Command = "create_factory", []byte(`{"fixture":true}`) }
	_, r := replay(w, reseal(w.Rows, 0, create))
	is(t, r, models.CodeJournalBroken, "seq", "1")
	_, r = replay(w, reseal(w.Rows, 3, create))
	is(t, r, models.CodeJournalBroken)
	cancel := func(r *models.Row) { r.CommandName, r.Command = "cancel_run", []byte(`{}`) }
	_, r = kernel.ReplayFactory(slices.Values(reseal(w.FactoryRows, len(w.FactoryRows)-1, cancel)))
	is(t, r, models.CodeJournalBroken)
	_, r = kernel.ReplayFactory(slices.Values(w.Rows))
	if r == nil {
		t.Error("a run is no factory")
	}
	_, r = replay(w, w.FactoryRows)
	if r == nil {
		t.Error("a factory is no run")
	}
	// Rows whose run is named empty throughout.
	var nameless []models.Row
	for _, row := range w.Rows {
		row.Run = ""
		nameless = append(nameless, row)
	}
	journal.Seal(models.Digest{}, nameless)
	_, r = replay(w, nameless)
	is(t, r, models.CodeJournalBroken, "seq", "1")
}

// A journal whose names are no ids leaves a state that can still be encoded: the recount of a candidate does.
func TestNamesThatAreNoIDs(t *testing.T) {
	w := world.Held()
	for _, change := range []func(*models.Row){func(r *models.Row) { r.Factory = "\x00" }, func(r *models.Row) { r.Run = "\xff" }} {
		rows := slices.Clone(w.Rows)
		for i := range rows {
			change(&rows[i])
		}
		journal.Seal(models.Digest{}, rows)
		s, r := replay(w, rows)
		if n := kernel.Recounted(w.State, s, r); n.BrokenAt != 1 {
			t.Errorf("recount %+v", n)
		}
	}
}

// Some stores return empty bytes for none.
func TestEmptyBytesAreNone(t *testing.T) {
	w := world.Held()
	rows := slices.Clone(w.Rows)
	for i := range rows {
		if rows[i].I > 0 {
			rows[i].Command, rows[i].Env = []byte{}, []byte{}
		}
		if rows[i].Blobs == nil {
			rows[i].Blobs = []models.Digest{}
		}
	}
	if _, r := replay(w, rows); r != nil {
		t.Error(r)
	}
	with := slices.IndexFunc(rows, func(r models.Row) bool { return r.I > 0 })
	for _, change := range []func(*models.Row){
		func(r *models.Row) { r.CommandID = "x" }, func(r *models.Row) { r.CommandName = "x" },
		func(r *models.Row) { r.Command = []byte("{}") }, func(r *models.Row) { r.Env = []byte("{}") },
	} {
		_, r := replay(w, reseal(w.Rows, with, change))
		is(t, r, models.CodeJournalBroken, "seq", strconv.Itoa(with+1))
	}
	first := slices.IndexFunc(rows, func(r models.Row) bool { return r.I == 0 })
	for _, change := range []func(*models.Row){func(r *models.Row) { r.Command = nil }, func(r *models.Row) { r.Env = nil }} {
		_, r := replay(w, reseal(w.Rows, first, change))
		is(t, r, models.CodeJournalBroken, "seq", strconv.Itoa(first+1))
	}
}

// K2: a row whose command no longer decides into its events, with everything sealed anew.
func TestDecidingAgainGivesTheSame(t *testing.T) {
	w := world.Queued()
	history := w.History()
	settled := slices.IndexFunc(w.Rows, func(r models.Row) bool { return r.Kind == "migration.settled" })
	for name, change := range map[string]func(*models.Row){
		"an acknowledgement": func(r *models.Row) {
			r.Command = bytes.Replace(r.Command, []byte(`"acknowledge_no_new_grant":true`), []byte(`"acknowledge_no_new_grant":false`), 1)
		},
		"the window": func(r *models.Row) { r.Command = bytes.Replace(r.Command, []byte(`:600,`), []byte(`:601,`), 1) },
		"pending": func(r *models.Row) {
			r.Env = bytes.Replace(r.Env, []byte(`"recount"`), []byte(`"pending":500,"recount"`), 1)
		},
		"the actor": func(r *models.Row) {
			r.Actor = world.Omar
			r.Env = bytes.Replace(r.Env, []byte(`"dana"`), []byte(`"omar"`), 1)
		},
		"a hold": func(r *models.Row) {
			r.Env = bytes.Replace(r.Env, []byte(`"holds":[]`), []byte(`"holds":[{"code":"made_up","details":[]}]`), 1)
		},
		"the saved answer": func(r *models.Row) { r.Env = append(bytes.TrimSuffix(r.Env, []byte("}")), `,"saved":"same"}`...) },
	} {
		t.Run(name, func(t *testing.T) {
			rows := reseal(w.Rows, settled, func(r *models.Row) {
				was := slices.Clone(r.Command)
				env := slices.Clone(r.Env)
				change(r)
				if bytes.Equal(was, r.Command) && bytes.Equal(env, r.Env) {
					t.Fatal("nothing was changed")
				}
			})
			if name == "the actor" {
				rows = reseal(rows, settled+1, func(r *models.Row) { r.Actor = world.Omar })
			}
			_, r := kernel.Replay(slices.Values(rows), history)
			is(t, r, models.CodeJournalBroken, "seq", strconv.Itoa(settled+1))
		})
	}
	// The env of a row must name the row's own time and actor.
	for _, change := range []func(*models.Row){
		func(r *models.Row) { r.At++ },
		func(r *models.Row) { r.Actor = world.Worker2 },
	} {
		rows := world.Executing().Rows
		last := len(rows) - 1
		_, r := replay(w, reseal(rows, last, change))
		is(t, r, models.CodeJournalBroken, "seq", strconv.Itoa(last+1))
	}
}

// mutated changes some rows of a real journal at random, seals them anew or not, and replays: whatever comes, no panic, and
// what verifies is what a state can be encoded from.
func mutated(t *rapid.T) {
	base := everythingOnce
	run := rapid.Bool().Draw(t, "run")
	rows := slices.Clone(base.FactoryRows)
	if run {
		rows = slices.Clone(base.Rows)
	}
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		i := rapid.IntRange(0, len(rows)-1).Draw(t, "row")
		r := &rows[i]
		switch rapid.SampledFrom([]string{"payload", "command", "env", "kind", "name", "blobs", "number", "text", "drop", "copy"}).Draw(t, "what") {
		case "payload":
			r.Payload = anyBytes(t, r.Payload)
		case "command":
			r.Command = anyBytes(t, r.Command)
		case "env":
			r.Env = anyBytes(t, r.Env)
		case "kind":
			r.Kind = rapid.SampledFrom(rows).Draw(t, "other").Kind
		case "name":
			r.CommandName = rapid.SampledFrom(slices.Concat(base.Rows, base.FactoryRows)).Draw(t, "other").CommandName
		case "blobs":
			r.Blobs = nil
		case "number":
			n := rapid.SampledFrom([]int64{-1 << 63, -1, 0, 1, 2, 1 << 62, 1<<63 - 1}).Draw(t, "n")
			*rapid.SampledFrom([]*int64{&r.Format, &r.Rules, &r.Seq, &r.Cmd, &r.I, &r.N, (*int64)(&r.At)}).Draw(t, "field") = n
		case "text":
			s := rapid.SampledFrom([]string{"", "x", "\x00", "\xff", world.Dana, models.ServerActor, world.Run, world.Factory}).Draw(t, "s")
			*rapid.SampledFrom([]*string{&r.Factory, &r.Run, &r.Actor, &r.Kind, &r.CommandID}).Draw(t, "field") = s
		case "drop":
			rows = slices.Delete(rows, i, i+1)
		case "copy":
			rows = slices.Insert(rows, i, rapid.SampledFrom(slices.Concat(base.Rows, base.FactoryRows)).Draw(t, "copied"))
		}
		if len(rows) == 0 {
			return
		}
	}
	if rapid.Bool().Draw(t, "sealed") {
		journal.Seal(models.Digest{}, rows)
	}
	if run {
		s, _ := kernel.Replay(slices.Values(rows), historyOnce)
		s.Encode()
		return
	}
	h, _ := kernel.ReplayFactory(slices.Values(rows))
	kernel.EncodeFactory(h.Last())
}

// anyBytes is the text with a byte or a value in it changed.
func anyBytes(t *rapid.T, b []byte) []byte {
	if len(b) == 0 {
		return rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
	}
	switch rapid.IntRange(0, 2).Draw(t, "how") {
	case 0:
		b = slices.Clone(b)
		b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		return b
	case 1:
		from := rapid.SampledFrom([]string{"1", "true", "false", "{", "[]", "\"", ":0", "5"}).Draw(t, "from")
		to := rapid.SampledFrom([]string{"2", "0", "-1", "true", "false", "null", "[]", "{}", "\"\"", "9223372036854775807", "1.5"}).Draw(t, "to")
		return bytes.Replace(b, []byte(from), []byte(to), rapid.IntRange(1, 3).Draw(t, "times"))
	default:
		return rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
	}
}

var (
	everythingOnce = world.Everything()
	historyOnce    = everythingOnce.History()
)

func TestMutatedRowsNeverPanic(t *testing.T) { rapid.Check(t, mutated) }
func FuzzMutatedRows(f *testing.F)           { f.Fuzz(rapid.MakeFuzz(mutated)) }

// Every decoder of stored text: what decodes, encodes again to the same canonical text.
func FuzzDecode(f *testing.F) {
	for _, r := range slices.Concat(everythingOnce.Rows, everythingOnce.FactoryRows) {
		f.Add(r.Kind, r.Payload)
		if r.I == 0 {
			f.Add(r.CommandName, r.Command)
			f.Add("env", r.Env)
		}
	}
	f.Add("state", everythingOnce.State.Encode())
	f.Add("factory", kernel.EncodeFactory(everythingOnce.FactoryState))
	f.Fuzz(func(t *testing.T, kind string, text []byte) {
		if e, err := models.DecodeEvent(kind, text); err == nil {
			models.Blobs(e)
			same(t, kind, e, text)
		}
		if c, err := models.DecodeCommand(kind, text); err == nil {
			kernel.RoleFor(c)
			models.ForFactory(c)
			same(t, kind, c, text)
		}
		if e, err := models.OpenEnv(text); err == nil {
			same(t, "env", e, text)
		}
		if s, err := kernel.DecodeState(text); err == nil {
			if !bytes.Equal(s.Encode(), text) {
				t.Fatalf("state %s", text)
			}
			kernel.Queue(s)
			kernel.Position(s, 0, 0)
		}
		if g, err := kernel.DecodeFactory(text); err == nil && !bytes.Equal(kernel.EncodeFactory(g), text) {
			t.Fatalf("factory %s", text)
		}
	})
}

func same(t *testing.T, kind string, v any, text []byte) {
	t.Helper()
	want, err := canon.Canonicalize(text)
	if err != nil {
		t.Fatalf("%s: decoded but not canonical: %v", kind, err)
	}
	if got, err := canon.Marshal(v); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s: %s became %s, %v", kind, want, got, err)
	}
}
