package openai

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

func strs(v *pyjson.Value) []string {
	var out []string
	for _, item := range v.Items {
		out = append(out, item.Text)
	}
	return out
}

// REC-05: what would leave next is known to the byte, because the SDK's bytes for the same input are.
func TestRequestsOfTheSDK(t *testing.T) {
	for _, version := range versions {
		lines := bufio.NewScanner(bytes.NewReader(read(t, "requests-"+string(version)+".jsonl")))
		lines.Buffer(nil, 1<<20)
		rendered, unsupported := 0, map[string]int{}
		for n := 1; lines.Scan(); n++ {
			c := parseJSON(t, lines.Bytes())
			got, err := Build(Request{
				Version: version, Model: c.Get("model").Text, Settings: c.Get("settings"), Instructions: strs(c.Get("instructions")),
				Tools: c.Get("tools").Items, OutputTools: c.Get("output_tools").Items, AllowText: c.Get("allow_text").IsTrue(),
				History: c.Get("history"),
			})
			want := c.Get("wire").Text
			var no *UnsupportedError
			switch {
			case errors.As(err, &no):
				unsupported[no.Path[strings.LastIndex(no.Path, "/"):]]++
			case want[0] != '{':
				t.Errorf("%s line %d: rendered, the SDK answers %s", version, n, want)
			case string(got) != want:
				i := 0
				for i < len(got) && i < len(want) && got[i] == want[i] {
					i++
				}
				t.Errorf("%s line %d differs at %d:\n got %.200s\nwant %.200s", version, n, i, got[max(0, i-60):], want[max(0, i-60):])
			default:
				rendered++
			}
		}
		t.Logf("%s: %d rendered as the SDK does, not rendered: %v", version, rendered, unsupported)
		if lines.Err() != nil || rendered < 30 {
			t.Errorf("%d rendered, %v", rendered, lines.Err())
		}
	}
}
