package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// pageVerified is how many run ids one read of the server returns.
const pageVerified = 500

// verifiedAll is what was found about the runs of a factory.
type verifiedAll struct {
	runs, unregistered, faults int
	checked                    engine.Verified // of all together: how much, and nothing else
}

// verifyAll fetches every run that the token's factory has and checks each like one file. A run that does not hold is
// reported and the others are checked all the same. Runs that were opened and never registered have no record.
func verifyAll(ctx context.Context, conn connection, check func(engine.Bundle) (engine.Verified, error), report func(engine.Verified, string, error) error) (verifiedAll, error) {
	var all verifiedAll
	client, err := conn.client()
	if err != nil {
		return all, err
	}
	for after := ""; ; {
		runs, next, err := client.Runs(ctx, after, pageVerified)
		if err != nil {
			return all, err
		}
		for _, run := range runs {
			b, err := fetchBundle(ctx, conn, run)
			if errors.Is(err, &forge.Problem{Code: models.CodeNotFound}) {
				all.unregistered++
				continue
			}
			var v engine.Verified
			if err == nil {
				v, err = check(b)
			}
			if ctx.Err() != nil {
				return all, ctx.Err()
			}
			if err := all.add(v, err); err != nil {
				return all, err
			}
			if err := report(v, run, err); err != nil {
				return all, err
			}
		}
		if next == "" {
			return all, nil
		}
		after = next
	}
}

// add counts a run; an error that says nothing about the record ends the check.
func (a *verifiedAll) add(v engine.Verified, err error) error {
	if err != nil {
		if r, ok := engine.IsRefusal(err); !ok || r.Code != models.CodeJournalBroken {
			return err
		}
		a.faults++
	}
	a.runs++
	c := &a.checked
	c.Rows, c.Blobs, c.BlobsErased = c.Rows+v.Rows, c.Blobs+v.Blobs, c.BlobsErased+v.BlobsErased
	c.Admissions, c.Reconstructions = c.Admissions+v.Admissions, c.Reconstructions+v.Reconstructions
	c.RefusedRequests, c.Reproductions = c.RefusedRequests+v.RefusedRequests, c.Reproductions+v.Reproductions
	c.Reports, c.ReportsMissing = c.Reports+v.Reports, c.ReportsMissing+v.ReportsMissing
	return nil
}

func (a verifiedAll) print(w io.Writer) {
	fmt.Fprintf(w, "%d %s verified, %d rows, %d blobs (%d erased), %d of %d admissions reconstructed, %d never registered\n",
		a.runs-a.faults, plural(a.runs-a.faults, "run"), a.checked.Rows, a.checked.Blobs, a.checked.BlobsErased, a.checked.Reconstructions, a.checked.Admissions, a.unregistered)
}

func (a verifiedAll) err() error {
	if a.faults > 0 {
		return models.Refuse(models.CodeJournalBroken, models.D("faults", a.faults), models.D("runs", a.runs))
	}
	return unchecked(a.checked)
}
