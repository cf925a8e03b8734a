package secrets

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forge-continuity/forge/models"
)

func screener(t testing.TB) *Screener {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Tokens with the form that their issuers chose, made for this test.
const (
	github = "ghp_b8107e28a54da81906d1db852bd00a37f3d0"
	amazon = "AKIAQ4M2X7PLK3WDN5TZ"
	pem    = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgVcB9UJRD9YVzbEPW\n-----END PRIVATE KEY-----"
)

// Every rule of the list exists in the pinned library, the set has one digest for ever, and go.mod has that release.
func TestRuleSetIsPinned(t *testing.T) {
	s := screener(t)
	if ids := Rules(); len(ids) < 100 || !slices.IsSorted(ids) || slices.Contains(ids, "generic-api-key") {
		t.Errorf("%d rules", len(ids))
	}
	if got := s.RuleSet().String(); got != "4da8916b746ac147b00b7be4046a35042ebd5f815ed58cb14d42e673c4c501fa" {
		t.Errorf("the rule set is now %s: a profile that names the old one covers it no longer", got)
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil || !strings.Contains(string(mod), Library) {
		t.Errorf("go.mod does not have %s: %v", Library, err)
	}
}

// A key of a known form is found where it stands, and never repeated; what only looks random is not.
func TestFindsKeysOfKnownForms(t *testing.T) {
	s := screener(t)
	text := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	type one = map[string]any
	for name, c := range map[string]struct {
		text []byte
		want []models.Finding
	}{
		"nothing":               {text(one{"history": []any{one{"content": "nothing to see"}}}), nil},
		"random":                {text(one{"content": "api_key = \"9fb3a7d2c41e8b5f60a1c7e3d2b4f6a8\""}), nil},
		"in a string":           {text(one{"history": []any{one{"content": "use " + github + " please"}}}), []models.Finding{{Path: "/history/0/content", Rule: "github-pat"}}},
		"right after an escape": {text(one{"content": "key:\n" + amazon + "\nend"}), []models.Finding{{Path: "/content", Rule: "aws-access-token"}}},
		"nested JSON":           {text(one{"args": `{"k":"` + amazon + `"}`}), []models.Finding{{Path: "/args", Rule: "aws-access-token"}}},
		"a member's name":       {text(one{"args": one{github: 1}}), []models.Finding{{Path: "/args/~", Rule: "github-pat"}}},
		"below a strange name":  {text(one{"args": one{"my secret": []any{github}}}), []models.Finding{{Path: "/args/~/0", Rule: "github-pat"}}},
		"a private key":         {text(one{"content": pem}), []models.Finding{{Path: "/content", Rule: "private-key"}}},
		"told to look away":     {text(one{"content": github + " gitleaks:allow"}), []models.Finding{{Path: "/content", Rule: "github-pat"}}},
		"twice":                 {text(one{"args": github, "content": github}), []models.Finding{{Path: "/args", Rule: "github-pat"}, {Path: "/content", Rule: "github-pat"}}},
		"no JSON":               {[]byte("{ " + github), []models.Finding{{Path: "", Rule: "github-pat"}}},
	} {
		if got := s.Screen(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for _, f := range s.Screen(text(one{"my secret " + github: pem})) {
		if !f.Valid() || strings.Contains(f.Path, "secret") || strings.Contains(f.Path, github) {
			t.Errorf("%+v", f)
		}
	}
}

func TestScreensFromManyGoroutines(t *testing.T) {
	s := screener(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got := s.Screen([]byte(`{"content":"` + github + `"}`)); len(got) != 1 {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkScreen(b *testing.B) {
	s := screener(b)
	data, err := os.ReadFile("../../fixtures/recordings/held-2.55.0/checkpoint-10.json")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		s.Screen(data)
	}
}
