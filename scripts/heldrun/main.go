// Command heldrun loads the recorded held run into a server's fixture factory, so that tools which send many requests have
// something real to send them to: heldrun RUN, with FORGE_SERVER and FORGE_TOKEN of a principal that has every role.
package main

import (
	"context"
	"fmt"
	"os"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "heldrun: usage: heldrun RUN")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "heldrun: error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, id string) error {
	client, err := forge.New(os.Getenv("FORGE_SERVER"), os.Getenv("FORGE_TOKEN"), nil)
	if err != nil {
		return err
	}
	r, err := recordings.Held("2.55.0")
	if err != nil {
		return err
	}
	if err := load.PutRecords(ctx, client, r); err != nil {
		return err
	}
	f, err := client.Factory(ctx)
	if err != nil {
		return err
	}
	if _, err := client.PutProfile(ctx, "profile", load.FixtureProfile("fixture", f.Host)); err != nil {
		return err
	}
	policy, err := client.Policy(ctx)
	if err != nil {
		return err
	}
	if _, err := client.PutPolicy(ctx, load.PolicyOn(policy.Policy, models.MaxWindow)); err != nil {
		return err
	}
	_, err = load.Held(ctx, client, client, r, id, load.Options{})
	return err
}
