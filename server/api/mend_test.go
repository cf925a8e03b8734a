package api_test

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api"
	. "github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// setState puts other bytes in place of a cached state, of the run or with an empty one of the factory, and returns the old.
func setState(t *testing.T, w *World, run string, change func([]byte) []byte) []byte {
	t.Helper()
	var old []byte
	err := w.Store.Append(t.Context(), engine.Locks{Factory: Factory, Run: run, Exclusive: run == ""}, func(l engine.Loaded) (*engine.Write, error) {
		cached := l.Run
		if run == "" {
			cached = l.Factory
		}
		old = cached.State
		return &engine.Write{State: change(slices.Clone(old)), Rules: cached.Rules, Lease: l.Lease}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return old
}

// older are cached states as another build may have left them: one that lacks a member, one with a member that is unknown
// here, and bytes that are no state at all.
var older = map[string]func([]byte) []byte{
	"a member less": func(b []byte) []byte { return bytes.Replace(b, []byte(`"rules":1,`), nil, 1) },
	"a member more": func(b []byte) []byte { return append([]byte(`{"aaa":1,`), b[1:]...) },
	"cut":           func(b []byte) []byte { return b[:len(b)/2] },
	"nothing":       func([]byte) []byte { return []byte{} },
}

// State is a cache: one that this build cannot read is folded from the rows again by whoever meets it first, reader or
// writer, and every door stays open (kernel, K1).
func TestStateOfAnotherBuild(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		held := w.Hold(t, "held")
		r := w.Open(t, "run-1")
		r.Claim(t, "claim-1")
		command := r.Blob(t, Worker, "a command")
		n := int64(0)
		doors := map[string]func(*testing.T){
			"read":      func(t *testing.T) { r.Show(t) },
			"rows":      func(t *testing.T) { rowsOf(t, w, "run-1", 1) },
			"candidate": func(t *testing.T) { held.Candidate(t) },
			"append": func(t *testing.T) {
				n++
				r.Append(t, models.CommandStarted{Command: command, Number: n, Position: -1}, models.CommandFinished{Number: n, Receipt: command})
			},
			"renewal": func(t *testing.T) {
				Must[api.Renewed](t, w, http.StatusOK, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/claims/claim-1/renewal",
					Body: map[string]int64{"fence": 1, "lease_seconds": 900}})
			},
			"blob":    func(t *testing.T) { r.Blob(t, Worker, "more") },
			"factory": func(t *testing.T) { w.PutPolicy(t, *Enabled()) },
			"startup": func(t *testing.T) {
				if _, err := w.Engine.AnnotateStartup(t.Context(), "boot"); err != nil {
					t.Fatal(err)
				}
			},
		}
		for what, change := range older {
			for door, enter := range doors {
				for _, runs := range [][]string{{""}, {"run-1", "held"}, {"", "run-1", "held"}} {
					for _, run := range runs {
						if old := setState(t, w, run, change); slices.Equal(old, change(slices.Clone(old))) {
							t.Fatalf("%s does not change the state of %q", what, run)
						}
					}
					enter(t)
					r.Show(t) // mends what this door did not need
					held.Show(t)
					if t.Failed() {
						t.Fatalf("%s of %q through %s", what, runs, door)
					}
				}
				err := w.Engine.Doctor(t.Context(), func(f engine.Finding) {
					if f.Fault != nil {
						t.Errorf("%s through %s: factory %s run %q: %v", what, door, f.Factory, f.Run, f.Fault)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(w.Log.Lines("cached state made anew")) == 0 {
			t.Error("nothing was made anew")
		}
	})
}

// What the rows do not bear out is not made anew: an examination names a cached state that can be read and is another one,
// of a run and of a factory, and changes nothing.
func TestDoctorFindsAChangedState(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		w.Hold(t, "run-1")
		examine := func() (faults []string) {
			err := w.Engine.Doctor(t.Context(), func(f engine.Finding) {
				if f.Fault != nil {
					faults = append(faults, f.Factory+" "+f.Run+": "+f.Fault.Error())
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			return faults
		}
		if faults := examine(); len(faults) > 0 {
			t.Fatalf("%v", faults)
		}
		for name, c := range map[string]struct {
			run    string
			change func([]byte) []byte
		}{
			"run": {"run-1", func(b []byte) []byte {
				s, err := kernel.DecodeState(b)
				if err != nil {
					t.Fatal(err)
				}
				s.Budget.Spent.Commands--
				return s.Encode()
			}},
			"factory": {"", func(b []byte) []byte {
				f, err := kernel.DecodeFactory(b)
				if err != nil {
					t.Fatal(err)
				}
				f.Policy.MaxPendingTickets++
				return kernel.EncodeFactory(f)
			}},
			"unreadable": {"run-1", func(b []byte) []byte { return b[:len(b)-1] }},
		} {
			old := setState(t, w, c.run, c.change)
			before := snapshot(t, w)
			if faults := examine(); len(faults) != 1 || !strings.HasPrefix(faults[0], Factory+" "+c.run+": ") || !strings.Contains(faults[0], "cached state") {
				t.Errorf("%s: %v", name, faults)
			}
			unchanged(t, before, snapshot(t, w))
			setState(t, w, c.run, func([]byte) []byte { return old })
		}
		if faults := examine(); len(faults) > 0 {
			t.Errorf("put back: %v", faults)
		}
	})
}

// Tokens end with the principal: put back, it is given new ones, and neither an old one nor one issued while it was gone
// works again. Losing roles alone ends no token.
func TestARemovedPrincipalsTokensStayDead(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		look := func(token string) int {
			return w.Send(t, Call{Token: token, Method: http.MethodGet, Path: "/factory"}).Status
		}
		second, _ := w.Token(t, Factory, Reader, 3600)
		w.SetRoles(t, Reader, false)
		w.SetRoles(t, Reader, false, models.RoleReader)
		if look(second) != http.StatusOK {
			t.Error("a token ended with a change of roles")
		}
		w.SetRoles(t, Reader, true)
		if _, _, err := w.Engine.IssueToken(t.Context(), Factory, Reader, 60); err == nil {
			t.Error("a token for nobody")
		}
		w.SetRoles(t, Reader, false, models.RoleReader)
		for name, token := range map[string]string{"first": w.Tokens[Reader], "second": second} {
			if status := look(token); status != http.StatusUnauthorized {
				t.Errorf("the %s token of a principal put back: %d", name, status)
			}
		}
		fresh, _ := w.Token(t, Factory, Reader, 3600)
		if look(fresh) != http.StatusOK || look(w.Tokens[Worker]) != http.StatusOK || look(w.Tokens[Stranger]) != http.StatusOK {
			t.Error("a token of somebody who was not removed is refused")
		}
	})
}

// scarce is a store whose runs may have little content.
type scarce struct {
	engine.Store
	limit int64
}

func (s scarce) PutBlob(ctx context.Context, factory, run string, b engine.Blob, _ int64) error {
	return s.Store.PutBlob(ctx, factory, run, b, s.limit)
}

// The content of a run is bounded, whoever sends it, and the refusal has a name; what is kept already is taken again.
func TestContentIsBounded(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := Start(t, scarce{s.open(t), 2000}, &Fake{}, Options{})
			w.Seen = conforms(t)
			r := w.Open(t, "run-1")
			r.Claim(t, "claim-1")
			send := func(content string) Answer {
				return w.Send(t, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/blobs/" + models.SaltedBlob(r.Salt, []byte(content)).String(),
					Body: content, Header: map[string]string{"Forge-Fence": "1"}})
			}
			large := strings.Repeat("x", 1500)
			r.Blob(t, Worker, large)
			p := refused(t, send(strings.Repeat("y", 500)), models.CodeContentFull)
			if p.Details["limit"] != "4294967296" {
				t.Errorf("%v", p.Details)
			}
			r.Blob(t, Worker, large)
			command := r.Blob(t, Worker, "a small command")
			r.Append(t, models.CommandStarted{Command: command, Number: 1, Position: -1}, models.WorkerFailed{Report: command})
			refused(t, w.Send(t, Call{As: Dana, Method: http.MethodPost, Path: "/runs/run-1/evidence", Body: strings.Repeat("z", 500)}), models.CodeContentFull)
			w.Open(t, "run-2")
		})
	}
}

// A store is examined while people and workers go on: what moves between two looks of the examination is no fault.
func TestDoctorBesideTraffic(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		for _, id := range []string{"a", "b"} {
			w.Hold(t, id)
		}
		r := w.Open(t, "c")
		c := w.Hold(t, "d")
		n := 0
		err := w.Engine.Doctor(t.Context(), func(f engine.Finding) {
			if f.Fault != nil {
				t.Errorf("factory %s run %q: %v", f.Factory, f.Run, f.Fault)
			}
			if f.Factory != Factory {
				return
			}
			if n++; n == 1 {
				p := *Enabled()
				p.MaxTicketsPerRun++
				w.PutPolicy(t, p)
				r.Claim(t, "claim-1") // stands on the new policy
				c.Admit(t, "request-1")
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if n != 5 {
			t.Errorf("%d findings", n)
		}
	})
}
