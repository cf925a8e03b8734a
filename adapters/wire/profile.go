package wire

import (
	_ "embed"
	"strings"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

var (
	//go:embed profiles-2.55.0.txt
	profiles2550 string
	//go:embed profiles-2.58.0.txt
	profiles2580 string
)

// Profile is the SDK's model profile: what changes how an answer is read or a history is rendered. It belongs to an API, a
// provider and a model name; ProfileOf has the SDK's own. The zero Profile has the defaults.
type Profile struct{ set *pyjson.Value }

// ProfileOf returns the profile that this version of the SDK has for a model, and whether the table knows the model. api is
// "openai-chat", "openai-responses", "anthropic", "google" or "bedrock".
func ProfileOf(v pydanticai.Version, api, provider, model string) (Profile, bool) {
	p, ok := profileLine(v, api+" "+provider+" "+model)
	if !ok {
		return Profile{}, false
	}
	set, err := ParseJSON([]byte(p), "")
	if err != nil {
		panic("wire: profile table: " + err.Error())
	}
	return Profile{set}, true
}

// profileLine finds a name's profile in the table of the version: the next line that is an object. The table is searched rather
// than read into a map, since an instance of the sandbox asks it once or twice and is thrown away.
func profileLine(v pydanticai.Version, name string) (string, bool) {
	table := profiles2550
	if v == pydanticai.V2580 {
		table = profiles2580
	}
	at := strings.Index(table, "\n"+name+"\n")
	if at < 0 || strings.Contains(name, "\n") || strings.HasPrefix(name, "{") || strings.HasPrefix(name, "#") {
		return "", false
	}
	from := at + strings.Index(table[at:], "\n{") + 1
	line, _, _ := strings.Cut(table[from:], "\n")
	return line, true
}

// Flag returns a Boolean of the profile, false where it is not said.
func (p Profile) Flag(name string) bool { return p.set.Get(name).IsTrue() }

// On returns a Boolean that is true where it is not said.
func (p Profile) On(name string) bool { return !p.set.Get(name).IsFalse() }

// Text returns a text of the profile, "" where it is not said.
func (p Profile) Text(name string) string { return TextOf(p.set, name) }

// Has reports whether a list of the profile holds the text; a list that is not said holds everything in other.
func (p Profile) Has(name, text string, other ...string) bool {
	list := p.set.Get(name)
	if !list.Is(pyjson.Array) {
		for _, o := range other {
			if o == text {
				return true
			}
		}
		return false
	}
	for _, item := range list.Items {
		if item.Text == text {
			return true
		}
	}
	return false
}

// Tags returns the tags that thinking inside a text stands between.
func (p Profile) Tags() [2]string {
	if list := Items(p.set, "thinking_tags"); len(list) == 2 {
		return [2]string{list[0].Text, list[1].Text}
	}
	return [2]string{"<think>", "</think>"}
}

// Number returns an integer of the profile, and whether it is said.
func (p Profile) Number(name string) (int, bool) {
	n, ok := p.set.Get(name).Int()
	return int(n), ok
}
