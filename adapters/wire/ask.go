package wire

import (
	"encoding/base64"
	"strings"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

func urlBase64(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(text))
}

// Ask is what the SDK is given for one model request. Everything in it has the form in which the SDK writes it.
type Ask struct {
	Options
	History  *pyjson.Value // array of messages, as the application keeps them
	Settings *pyjson.Value // object of model settings, or nil
	Params   *pyjson.Value // object of ModelRequestParameters, or nil
	Stream   bool
}

// Messages returns the history cleaned and prepared, as it is sent.
func (a *Ask) Messages() ([]*Message, error) {
	messages, err := History(a.Version, a.History)
	if err != nil {
		return nil, err
	}
	return Prepare(a.Options, Clean(a.Version, messages, true))
}

// Instruction is one block of instructions.
type Instruction struct {
	Content string
	Dynamic bool
}

// InstructionParts is _get_instruction_parts.
func (a *Ask) InstructionParts(messages []*Message) []Instruction {
	if list := Present(a.Params, "instruction_parts"); list != nil {
		var out []Instruction
		for _, part := range list.Items {
			out = append(out, Instruction{TextOf(part, "content"), part.Get("dynamic").IsTrue()})
		}
		return out
	}
	if m := instructionSource(messages); m != nil && Present(m.V, "instructions") != nil {
		return []Instruction{{TextOf(m.V, "instructions"), false}}
	}
	return nil
}

// Instructions is get_instructions: one text, nil for none.
func (a *Ask) Instructions(messages []*Message) *string {
	if parts := a.InstructionParts(messages); len(parts) > 0 {
		var texts []string
		for _, p := range parts {
			texts = append(texts, p.Content)
		}
		if text := TrimSpace(strings.Join(texts, "\n\n")); text != "" {
			return &text
		}
		return nil
	}
	if m := instructionSource(messages); m != nil {
		return PtrOf(m.V, "instructions")
	}
	return nil
}

// instructionSource is the last request that has instructions, or the one before it if the last brings only results.
func instructionSource(messages []*Message) *Message {
	var last *Message
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if !m.Request {
			continue
		}
		if last != nil {
			for _, part := range last.Parts {
				if resultRank(part) != 0 {
					return nil
				}
			}
			return m
		}
		if Present(m.V, "instructions") != nil {
			return m
		}
		last = m
	}
	return nil
}

// TrimSpace is Python's str.strip.
func TrimSpace(s string) string { return strings.TrimFunc(s, isSpaceRune) }

// Setting returns a model setting, nil for absent and null.
func (a *Ask) Setting(name string) *pyjson.Value { return Present(a.Settings, name) }
