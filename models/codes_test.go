package models

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// continuityCodes is the order, status and place of the codes as the continuity rules have them, written out a second time
// so that an edit of the table is not its own check.
const continuityCodes = `request_malformed 400 *
identity_missing 401 *
role_missing 403 *
not_found 404 *
request_conflict 409 ANBO
version_mismatch 422 A
acknowledgement_missing 422 ANBO
window_invalid 422 ANBO
graph_has_ticket 409 CA
recovery_recorded 409 NBO
fence_lost 409 X
lease_expired 409 X
policy_disabled 409 CANBOX
setting_off 409 CABOX
profile_unqualified 409 CANBOX
profile_mismatch 409 CANBOX
qualification_missing 409 CANBO
actor_not_original 403 CANBO
actor_lost 409 CANBOX
authority_revoked 403 CANBOX
run_cancelled 409 CANBOX
run_not_held 409 CANBO
checkpoint_mode_unsupported 422 CA
attempt_mismatch 409 CANBOX
claim_live 409 CANBO
ticket_outstanding 409 CAR
journal_broken 422 CANBOR
ticket_changed 409 NBOX
ticket_claimed 409 N
ticket_uncertain 409 NBO
claim_history_incomplete 409 NB
not_first_request 409 B
refusal_recovery_missing 422 O
observation_turn_unsupported 422 O
closure_incomplete 422 CA
model_outcome_unknown 409 CAX
consume_missing 422 CA
unknown_effect 409 CANBOX
later_activity 409 CANBO
source_changed 409 CANBOX
configuration_changed 409 CANBOX
scope_changed 409 CANBOX
digest_stale 412 ANBOX
source_unregistered 422 CA
runtime_unregistered 422 CA
validator_unregistered 422 CA
reader_unregistered 422 CA
policy_epoch_unknown 422 CA
unsupported_history_format 422 CAR
sdk_pair_unsupported 422 CA
record_out_of_bounds 422 CAR
checkpoint_digest_mismatch 422 CAR
checkpoint_not_canonical 422 CAR
credential_found 422 CAR
response_content_unsupported 422 CAO
call_unknown 422 CAO
call_writable 422 CAO
sibling_unsupported 422 CAO
evidence_call_not_single 422 CA
sibling_present 422 CA
duplicate_call_id 422 CAO
call_not_granted 422 CAO
query_not_object 422 CA
query_outside_schema 422 CA
query_valid 422 CA
sibling_arguments_invalid 422 CA
observation_custody_incomplete 422 CAO
checkpoint_field_unknown 422 CA
provenance_unsupported 422 CA
tool_kind_unsupported 422 CA
counter_missing 422 CA
counter_unknown 422 CA
counter_out_of_bounds 422 CAR
round_trip_loss 422 CA
response_unparsable 422 CA
sandbox_stopped 422 CANBO
contract_changed 422 CANBO
pending_checkpoint_differs 409 B
refusal_not_reviewed 422 B
review_evidence_mismatch 422 B
review_counts_not_zero 422 B
corrective_validation_missing 422 B
wire_bytes_differ 422 B
reviewed_history_differs 422 O
time_budget_unsupported 422 CANBO
deadline_passed 409 CANBOX
allowance_exhausted 409 CANBOX
tickets_per_run_reached 429 A
pending_tickets_reached 429 ANBO
restore_version_mismatch 422 R
restore_refused 409 R`

func TestTableFollowsTheContinuityRules(t *testing.T) {
	want := strings.Split(continuityCodes, "\n")
	got := Table()
	if len(got) < len(want) {
		t.Fatalf("the table has %d codes, the rules have %d", len(got), len(want))
	}
	for i, w := range want {
		e := got[i]
		if g := fmt.Sprintf("%s %d %s", e.Code, e.HTTP, e.Where); g != w {
			t.Errorf("code %d is %q, the rules have %q", i+1, g, w)
		}
		if len(e.Rules) == 0 {
			t.Errorf("%s names no rule", e.Code)
		}
	}
	for _, e := range got[len(want):] {
		if len(e.Rules) != 0 {
			t.Errorf("%s stands after the rules' codes and yet names %v", e.Code, e.Rules)
		}
	}
}

var (
	codeForm    = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	whereForm   = regexp.MustCompile(`^(\*|C?A?N?B?O?X?R?)$`)
	ruleForm    = regexp.MustCompile(`^(PREVIEW|ELIG|OBS|SDK|REC|EPOCH|FLOW|NOCLAIM|REFUSED|ROBS|BOUND|START|STUDIO|CRED)-\d\d$`)
	statuses    = []int{400, 401, 403, 404, 405, 409, 412, 413, 422, 429, 500, 503}
	oneSentence = regexp.MustCompile(`^[A-Z][^.]*\.$`)
)

func TestTableIsComplete(t *testing.T) {
	seen := []Code{}
	sentences := []string{}
	for i, e := range Table() {
		if !codeForm.MatchString(string(e.Code)) || slices.Contains(seen, e.Code) {
			t.Errorf("code %d %q is malformed or there twice", i+1, e.Code)
		}
		seen = append(seen, e.Code)
		if e.Where == "" || !whereForm.MatchString(e.Where) {
			t.Errorf("%s: where %q", e.Code, e.Where)
		}
		if !slices.Contains(statuses, e.HTTP) {
			t.Errorf("%s: status %d is not one the API answers", e.Code, e.HTTP)
		}
		for _, s := range []string{e.Message, e.Next} {
			if !oneSentence.MatchString(s) || len(s) > 120 {
				t.Errorf("%s: %q is not one short sentence", e.Code, s)
			}
		}
		if slices.Contains(sentences, e.Message) {
			t.Errorf("%s: its message is another code's too, so a reader cannot tell them apart", e.Code)
		}
		sentences = append(sentences, e.Message)
		for _, r := range e.Rules {
			if !ruleForm.MatchString(r) {
				t.Errorf("%s: %q is not a rule id", e.Code, r)
			}
		}
		if Precedence(e.Code) != i+1 {
			t.Errorf("Precedence(%s) = %d, want %d", e.Code, Precedence(e.Code), i+1)
		}
		if got, ok := Lookup(e.Code); !ok || got.Message != e.Message {
			t.Errorf("Lookup(%s) does not find it", e.Code)
		}
	}
	if _, ok := Lookup("no_such_code"); ok || Precedence("no_such_code") != 0 {
		t.Error("a code that is not in the table was found")
	}
}

func TestRefusal(t *testing.T) {
	r := Refuse(CodeDigestStale, D("want", PlainDigest(nil)), D("got", int64(-7)), D("named", "journal"))
	if got := []string{r.Details[0].Name, r.Details[1].Name, r.Details[2].Name}; !slices.Equal(got, []string{"got", "named", "want"}) {
		t.Errorf("details in the order %v, want them sorted by name", got)
	}
	if r.Detail("got") != "-7" || r.Detail("want") != PlainDigest(nil).String() || r.Detail("absent") != "" {
		t.Errorf("details are %v", r.Details)
	}
	if !strings.HasPrefix(r.Error(), "digest_stale: ") || !strings.Contains(r.Error(), "(got=-7, named=journal, want=") {
		t.Errorf("Error() = %q", r.Error())
	}
	wrapped := fmt.Errorf("admit: %w", r)
	if !errors.Is(wrapped, Refuse(CodeDigestStale)) || errors.Is(wrapped, Refuse(CodeNotFound)) || CodeOf(wrapped) != CodeDigestStale {
		t.Error("a refusal is matched by its code and by nothing else")
	}
	if CodeOf(errors.New("x")) != "" || CodeOf(nil) != "" {
		t.Error("another error has no code")
	}
	more := r.With(D("also", true), D("limit", Seconds(7200)), D("at_us", Instant(3)), D("rule", CodeNotFound), D("n", 1), D("u", uint64(2)))
	if len(r.Details) != 3 || len(more.Details) != 9 || more.Detail("limit") != "7200" || more.Detail("also") != "true" {
		t.Errorf("With: before %v, after %v", r.Details, more.Details)
	}
	for name, f := range map[string]func(){
		"unknown code":     func() { Refuse("no_such_code") },
		"two of one name":  func() { Refuse(CodeNotFound, D("a", 1), D("a", 2)) },
		"unsupported type": func() { D("a", []byte("x")) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// TestGoldenRefusalsDocument keeps docs/REFUSALS.md, the page that a problem's "type" links to, equal to the table.
func TestGoldenRefusalsDocument(t *testing.T) {
	path := filepath.Join("..", "docs", "REFUSALS.md")
	want := refusalsDocument()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/REFUSALS.md is not what the table says; run: go generate ./models")
	}
}

func refusalsDocument() string {
	var b strings.Builder
	b.WriteString(`# Refusals

<!-- Generated from models/codes.go by "go generate ./models". -->

When Forge says no, it answers one code of this list, what is so, and what you can do about it. Details carry the facts:
what was found, what was wanted, which limit. A code keeps its meaning for ever.

The list is in order of precedence. If several apply, a request is answered with the first; a candidate shows all of them,
in this order. Over HTTP a refusal is an application/problem+json document (RFC 9457) with the members ` + "`code`, `next` and `details`" + `.

*Where* is who answers the code: C the candidate and A its admission; N, B and O the recoveries of a request that was never
claimed, of one that the provider refused, and of a turn that lost a read; X claims and what a worker appends; R ordinary
restore, inspection, verification and the generic commands; \* any of them. *Rules* are the numbered continuity rules.

`)
	for i, e := range Table() {
		if i == 0 {
			b.WriteString("| no. | code | HTTP | where | rules |\n|---|---|---|---|---|\n")
		}
		where := e.Where
		if where == "*" {
			where = "\\*"
		}
		fmt.Fprintf(&b, "| %d | [`%s`](#%s) | %d | %s | %s |\n", i+1, e.Code, e.Code, e.HTTP, where, strings.Join(e.Rules, " "))
	}
	for _, e := range Table() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n%s\n", e.Code, e.Message, e.Next)
	}
	return b.String()
}
