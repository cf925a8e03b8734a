package line

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// races is how many admissions are raced against a PUT that disables the policy; the long form (./task faults) takes 1,000.
func races(t *testing.T) int {
	if v := os.Getenv("FORGE_RACES"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 200
}

// No admission row is later, by the store's clock, than the PUT that disabled the policy; and one that comes after it is
// policy_disabled. BOUND-01, FLOW-03 (rules, invariant 17).
func TestAdmissionAgainstDisable(t *testing.T) {
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			n := races(t)
			if store.name == "sqlite" {
				n = min(n, 50) // one writer at a time: the order is that of its lock
			}
			w := apitest.Start(t, store.open(t), &apitest.Fake{}, apitest.Options{})
			won, lost := 0, 0
			usual := 10 * time.Millisecond // of an admission, as last seen
			for i := range n {
				w.PutPolicy(t, *apitest.Enabled())
				run := w.Open(t, fmt.Sprintf("run-%d", i))
				run.Claim(t, "claim-1")
				run.Turn(t, 1, apitest.EvidenceCall)
				run.Fail(t)
				body := apitest.Accept(run.Candidate(t), 600)
				off := *apitest.Enabled()
				off.Enabled = false
				off.Revision = policyRevision(t, w)
				delay := usual * time.Duration(i%16) / 8
				var admitted, disabled apitest.Answer
				started := time.Now()
				var wg sync.WaitGroup
				wg.Go(func() {
					admitted, _ = w.Try(apitest.Call{As: apitest.Dana, Method: http.MethodPost, Path: run.Base() + "/requests/" + fmt.Sprintf("req-%d", i), Body: body})
					usual = time.Since(started)
				})
				wg.Go(func() {
					time.Sleep(delay) // so that either side may win
					disabled, _ = w.Try(apitest.Call{As: apitest.Dana, Method: http.MethodPut, Path: "/invalid-read-continuity/policy", Body: off})
				})
				wg.Wait()
				if disabled.Status != http.StatusOK {
					t.Fatalf("PUT answered %d %s", disabled.Status, disabled.Body)
				}
				put := lastRow(t, w, "")
				switch admitted.Status {
				case http.StatusAccepted:
					won++
					var receipt models.ContinuityReceipt
					if err := json.Unmarshal(admitted.Body, &receipt); err != nil {
						t.Fatal(err)
					}
					if receipt.AdmittedAt > put.At {
						t.Fatalf("race %d: admitted at %d, disabled at %d", i, receipt.AdmittedAt, put.At)
					}
				default:
					lost++
					if code := admitted.Code(); code != models.CodePolicyDisabled {
						t.Fatalf("race %d: %d %s", i, admitted.Status, admitted.Body)
					}
				}
			}
			t.Logf("%d admitted before, %d refused after", won, lost)
			if n >= 200 && (won == 0 || lost == 0) {
				t.Errorf("only one side ever won: nothing was raced")
			}
		})
	}
}

func policyRevision(t *testing.T, w *apitest.World) int64 {
	t.Helper()
	f, err := w.Engine.Factory(t.Context(), engine.Caller{Factory: apitest.Factory, Principal: apitest.Dana}, models.RoleAdministrator)
	if err != nil {
		t.Fatal(err)
	}
	return f.Policy.Revision
}

func lastRow(t *testing.T, w *apitest.World, run string) models.Row {
	t.Helper()
	c, err := w.Store.Factory(t.Context(), apitest.Factory)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := w.Store.Rows(t.Context(), apitest.Factory, run, c.Head.Seq, 1)
	if err != nil || len(rows) != 1 || rows[0].Kind != "policy.put" {
		t.Fatalf("%v %v", rows, err)
	}
	return rows[0]
}
