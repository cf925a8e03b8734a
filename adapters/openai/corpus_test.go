package openai

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// corpus is a folder of recorded provider exchanges beside a working copy; it is not part of the repository.
const corpus = "../../../shared/corpus/pydantic-ai/openai-chat"

// The message that upstream's tests assert for a recorded answer is the one this parser makes. The corpus is of release 2.33,
// so members that came later are not in it, and cost needs a price list.
func TestCorpusResponses(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(corpus, "*.json"))
	if len(files) == 0 {
		t.Skip("no corpus beside this working copy")
	}
	compared, held := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := parseJSON(t, data)
		name := filepath.Base(file)
		if !c.Get("alignment").Is(pyjson.Array) {
			continue
		}
		bound := map[string]*pyjson.Value{}
		for _, pair := range c.Get("alignment").Items {
			index, _ := pair.Get("message").Int()
			at, _ := pair.Get("interactions").Items[0].Int()
			want := c.Get("expected_messages").Items[index]
			body := c.Get("interactions").Items[at].Get("response").Get("body")
			if object, _ := body.Get("object").Str(); object != "chat.completion" {
				continue // the test switched to another API midway
			}
			url, _ := want.Get("provider_url").Str()
			r, err := Parse(pydanticai.V2550, url, pyjson.Encode(body))
			if err != nil {
				t.Errorf("%s message %d: %v", name, index, err)
				continue
			}
			for _, u := range r.Unsupported {
				t.Logf("%s message %d: %v", name, index, u)
			}
			if len(r.Unsupported) > 0 {
				held++
				if r.FinishReason != "content_filter" {
					continue
				}
			}
			compared++
			got := message(pydanticai.V2550, r, url)
			// Came later than the corpus.
			if want.Get("provider_details").Is(pyjson.Object) && got.Get("provider_details").Is(pyjson.Object) {
				got = got.With("provider_details", got.Get("provider_details").Without("service_tier"))
			}
			for _, field := range []string{"parts", "usage", "model_name", "provider_name", "provider_details", "provider_response_id", "finish_reason", "state"} {
				w, g := want.Get(field), got.Get(field)
				if field == "usage" {
					w, g = w.Without("cost"), g.Without("cost").Without("audio_seconds")
				}
				if path := mismatch(w, g, "/"+field, bound); path != "" {
					t.Errorf("%s message %d: %s\nwant %s\ngot  %s", name, index, path, pyjson.Encode(w), pyjson.Encode(g))
				}
			}
		}
	}
	t.Logf("%d answers compared, %d held", compared, held)
	if compared < 15 {
		t.Errorf("only %d answers compared", compared)
	}
}

// mismatch returns where got does not fit a value with wildcards (the corpus' README, "Wildcards"), or "".
func mismatch(want, got *pyjson.Value, path string, bound map[string]*pyjson.Value) string {
	if kind, ok := want.Get("$any").Str(); ok {
		if name, ok := want.Get("bind").Str(); ok {
			bound[name] = got
		}
		s, isString := got.Str()
		fits := false
		switch kind {
		case "any":
			fits = got != nil
		case "str", "datetime", "bytes":
			fits = isString
			if pattern, ok := want.Get("regex").Str(); ok {
				fits = fits && regexp.MustCompile("^(?:"+pattern+")$").MatchString(s)
			}
		case "int", "float":
			fits = got.Is(pyjson.Number)
		case "list":
			fits = got.Is(pyjson.Array)
		case "object":
			fits = got.Is(pyjson.Object)
		case "partial":
			for _, m := range want.Get("fields").Members {
				if p := mismatch(m.Value, got.Get(m.Name), path+"/"+m.Name, bound); p != "" {
					return p
				}
			}
			fits = true
		case "ref":
			fits = got != nil && pyjson.Equal(got, bound[want.Get("ref").Text])
		}
		if fits {
			return ""
		}
		return path
	}
	switch {
	case got == nil || want.Kind != got.Kind:
		return path
	case want.Kind == pyjson.Array:
		if len(want.Items) != len(got.Items) {
			return path
		}
		for i := range want.Items {
			if p := mismatch(want.Items[i], got.Items[i], path+"/"+itoa(i), bound); p != "" {
				return p
			}
		}
	case want.Kind == pyjson.Object:
		for _, m := range want.Members {
			if p := mismatch(m.Value, got.Get(m.Name), path+"/"+m.Name, bound); p != "" {
				return p
			}
		}
		for _, m := range got.Members {
			if want.Get(m.Name) == nil {
				return path + "/" + m.Name
			}
		}
	case want.Text != got.Text && strings.TrimSuffix(want.Text, ".0") != strings.TrimSuffix(got.Text, ".0"):
		return path
	}
	return ""
}
