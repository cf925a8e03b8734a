package forge_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/models"
)

// The original actor admits a held run. The request id is made and stored before anything is sent, so that a lost answer can
// be read back.
func Example() {
	ctx := context.Background()
	client, err := forge.New("http://127.0.0.1:8740", "forge_...", nil)
	if err != nil {
		log.Fatal(err)
	}
	candidate, err := client.Candidate(ctx, "nightly-4711")
	if err != nil {
		log.Fatal(err)
	}
	for _, hold := range candidate.Holds {
		fmt.Println(hold.Code, hold.Message, hold.Next)
	}
	saved, err := client.RequestContinuity(ctx, "nightly-4711", "continue-4711", models.RequestContinuity{
		AcknowledgeNoNewGrant: true, AcknowledgeOriginalConsumption: true, AcknowledgeRenewedSameAttemptLease: true,
		CandidateDigest: candidate.CandidateDigest, JournalDigest: candidate.JournalDigest, PolicyDigest: candidate.PolicyDigest,
		RunDigest: candidate.RunDigest, ValidForSeconds: 900, Version: 1,
	})
	if errors.Is(err, forge.ErrUncertain) {
		saved, err = client.Continuity(ctx, "nightly-4711", "continue-4711")
	}
	var problem *forge.Problem
	if errors.As(err, &problem) {
		fmt.Println(problem.Code, problem.Next)
		return
	}
	fmt.Println(saved.Receipt.State)
}
