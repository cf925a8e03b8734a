package wire

import (
	"regexp"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/pydanticai"
)

// A literal never hides a match of its pattern, and no pattern has alternatives at its top, where a literal would.
func TestAddresses(t *testing.T) {
	urls := []string{"", "https://", "https://api.openai.com/v1/", "https://x.openai.azure.com/", "https://bedrock-runtime.us-east-1.amazonaws.com",
		"https://aiplatform.googleapis.com/", "https://openrouter.ai/api/v1", "https://api.openrouter.ai", "https://router.huggingface.co/groq/x",
		"https://api.minimaxi.com", "https://api.mistral.ai", "https://api.moonshot.cn", "https://a.cloud.databricks.com", "https://api.cohere.com", "x"}
	matched := 0
	for _, p := range usageTable() {
		depth := 0
		for i := range p.url {
			switch p.url[i] {
			case '(', '[':
				depth++
			case ')', ']':
				depth--
			case '|':
				if depth == 0 {
					t.Errorf("%s has alternatives at its top", p.url)
				}
			}
		}
		whole := regexp.MustCompile("^(?:" + p.url + ")")
		for _, u := range urls {
			if want := whole.MatchString(u); at(p.url, u) != want {
				t.Errorf("%s at %s: want %v", u, p.url, want)
			} else if want {
				matched++
			}
		}
	}
	if matched < 10 {
		t.Errorf("only %d addresses match", matched)
	}
}

// Each name of the tables has the profile that stands below it.
func TestProfileTables(t *testing.T) {
	for v, table := range map[pydanticai.Version]string{pydanticai.V2550: profiles2550, pydanticai.V2580: profiles2580} {
		var names []string
		seen := 0
		for _, line := range strings.Split(table, "\n") {
			switch {
			case line == "" || line[0] == '#':
			case line[0] == '{':
				for _, n := range names {
					if got, ok := profileLine(v, n); !ok || got != line {
						t.Errorf("%s: %s has %q", v, n, got)
					}
					seen++
				}
				names = nil
			default:
				names = append(names, line)
			}
		}
		if seen < 200 {
			t.Errorf("%s: %d names", v, seen)
		}
		if _, ok := profileLine(v, "openai-chat openai no-such-model"); ok {
			t.Error("a model that is not in the table has a profile")
		}
	}
}
