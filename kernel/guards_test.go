package kernel_test

import (
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// A ticket that failed before any claim is nobody's to claim: only a recovery may queue it again (NOCLAIM-18).
func TestFailedTicketIsNotClaimed(t *testing.T) {
	w := world.Queued()
	w.State.Tickets.Tickets[0].State = "failed_unclaimed"
	refused(t, w.Claim(world.Worker2), models.CodeTicketOutstanding, "request_id", "request-1")
}

// Setting something again replaces it: a second entry under one name would hide the first.
func TestNothingStandsTwice(t *testing.T) {
	w := world.New(true)
	principals, records := len(w.FactoryState.Principals), len(w.FactoryState.Records)
	w.Roles(world.Omar, models.RoleReader)
	w.Record(models.RecordSource, "moved")
	if len(w.FactoryState.Principals) != principals || len(w.FactoryState.Records) != records {
		t.Errorf("%d principals, %d records", len(w.FactoryState.Principals), len(w.FactoryState.Records))
	}
}

// A cached state that lacks a member is folded anew, never read as zero.
func TestCacheIsWhole(t *testing.T) {
	w := world.Held()
	for _, text := range []string{`{}`, `{"attempt":2}`, ``, `null`} {
		if s, err := kernel.DecodeState([]byte(text)); err == nil {
			t.Errorf("state %q became %+v", text, s)
		}
		if f, err := kernel.DecodeFactory([]byte(text)); err == nil {
			t.Errorf("factory %q became %+v", text, f)
		}
	}
	if _, err := kernel.DecodeState(w.State.Encode()); err != nil {
		t.Error(err)
	}
	if _, err := kernel.DecodeFactory(kernel.EncodeFactory(w.FactoryState)); err != nil {
		t.Error(err)
	}
}
