package engine

import "fmt"

// Check reports whether w follows from what was loaded under the locks: rows of one command, one after the other from the
// head, and everything else of the same factory and run. Every store calls it before the first statement of a write, so a
// defect of the caller is an error without trace in either. A row number at or below the head is ErrTaken.
func (w *Write) Check(locks Locks, at Loaded) error {
	head, own := at.Run.Head, locks.Run == ""
	if own {
		head = at.Factory.Head
		if w.Queue != nil || w.Lease != 0 || w.Reclaim != 0 || w.Outstanding != "" || w.Verify || len(w.Rows) == 0 && w.State == nil {
			return fmt.Errorf("write to the journal of factory %s: it has rows or a state, no queue, no lease and no ticket", locks.Factory)
		}
	}
	for i, r := range w.Rows {
		switch {
		case r.Factory != locks.Factory || r.Run != locks.Run:
			return fmt.Errorf("row %d is of factory %q run %q, locked is %q %q", r.Seq, r.Factory, r.Run, locks.Factory, locks.Run)
		case r.Seq <= head.Seq:
			return fmt.Errorf("row %d of run %q: %w", r.Seq, locks.Run, ErrTaken)
		case r.Seq != head.Seq+1 || r.Prev != head.Hash:
			return fmt.Errorf("row %d of run %q does not follow row %d", r.Seq, locks.Run, head.Seq)
		case r.I != int64(i) || r.N != int64(len(w.Rows)) || r.Cmd != w.Rows[0].Cmd:
			return fmt.Errorf("row %d of run %q is %d of %d, command %d, want %d of %d, command %d",
				r.Seq, locks.Run, r.I, r.N, r.Cmd, i, len(w.Rows), w.Rows[0].Cmd)
		}
		head.Seq, head.Hash = r.Seq, r.Hash
	}
	if len(w.Rows) > 0 && w.State == nil || w.State != nil && (w.Rules <= 0 || head.Seq == 0) {
		return fmt.Errorf("write to run %q: rows have a state, and a state has rows and rules", locks.Run)
	}
	if w.Gone != "" && !own {
		return fmt.Errorf("write to run %q ends tokens of %q", locks.Run, w.Gone)
	}
	if w.Queue != nil && w.Queue.Run != locks.Run {
		return fmt.Errorf("queue entry of run %q, locked is %q", w.Queue.Run, locks.Run)
	}
	if w.Receipt.Key.ID != "" && (w.Receipt.Key.Factory != locks.Factory || w.Receipt.Run != locks.Run) {
		return fmt.Errorf("receipt of factory %q run %q, locked is %q %q",
			w.Receipt.Key.Factory, w.Receipt.Run, locks.Factory, locks.Run)
	}
	return nil
}

// Check reports whether the locks name what an append may lock: the exclusive factory, or a run.
func (l Locks) Check() error {
	if l.Factory == "" || l.Exclusive != (l.Run == "") || (l.Exclusive && l.Queue) {
		return fmt.Errorf("locks on factory %q run %q, exclusive %t, queue %t", l.Factory, l.Run, l.Exclusive, l.Queue)
	}
	return nil
}
