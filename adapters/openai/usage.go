package openai

import (
	"strings"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// usage sets the response's usage as _map_usage and genai-prices' rules for OpenAI chat give it. Counts stay as they came: one
// below zero or a Boolean, for which the SDK would write something else, is for pydanticai.CheckUsage to refuse, which has to
// follow.
func (p *parser) usage(root *pyjson.Value, r *Response) {
	r.Usage = pydanticai.NewRequestUsage(p.version, nil, nil)
	v := present(root, "usage")
	if v == nil {
		return
	}
	if !v.Is(pyjson.Object) {
		p.fail("/usage", "object expected")
		return
	}
	input, output := p.integer(v, "/usage", "prompt_tokens"), p.integer(v, "/usage", "completion_tokens")
	p.integer(v, "/usage", "total_tokens")
	completion, prompt := p.tokenDetails(v, "completion_tokens_details"), p.tokenDetails(v, "prompt_tokens_details")

	// details: the provider's own numbers, integers of the top level and whatever the completion details hold.
	details := pyjson.NewObject()
	for _, m := range v.Members {
		switch m.Name {
		case "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens":
		default:
			if m.Value.IsInteger() || m.Value.Is(pyjson.Bool) {
				details = details.With(m.Name, m.Value)
			}
		}
	}
	for _, m := range completion.Members {
		if m.Value.Kind != pyjson.Null {
			details = details.With(m.Name, m.Value)
		}
	}

	counters := []pyjson.Member{{Name: "input_tokens", Value: input}, {Name: "output_tokens", Value: output}}
	for _, c := range []struct {
		from       *pyjson.Value
		name, dest string
	}{
		{prompt, "cached_tokens", "cache_read_tokens"},
		{prompt, "cache_write_tokens", "cache_write_tokens"},
		{prompt, "audio_tokens", "input_audio_tokens"},
		{completion, "audio_tokens", "output_audio_tokens"},
		{completion, "reasoning_tokens", "output_reasoning_tokens"},
	} {
		if m := present(c.from, c.name); m != nil {
			counters = append(counters, pyjson.Member{Name: c.dest, Value: m})
		}
	}
	r.Usage = pydanticai.NewRequestUsage(p.version, counters, details)
}

// tokenDetails returns an object of token counts, empty when absent. Known counts must be integers.
func (p *parser) tokenDetails(usage *pyjson.Value, name string) *pyjson.Value {
	v := present(usage, name)
	if v == nil {
		return pyjson.NewObject()
	}
	if !v.Is(pyjson.Object) {
		p.fail("/usage/"+name, "object expected")
		return pyjson.NewObject()
	}
	for _, known := range []string{"accepted_prediction_tokens", "audio_tokens", "cache_write_tokens", "cached_tokens", "image_tokens",
		"reasoning_tokens", "rejected_prediction_tokens", "text_tokens"} {
		if m := present(v, known); m != nil && !m.IsInteger() {
			p.fail("/usage/"+name+"/"+known, "integer expected")
		}
	}
	return v
}

// otherRules are the addresses for which genai-prices 0.2.3 has a provider with rules of its own, so that the same body would
// give another usage.
var otherRules = []string{
	"api.anthropic.com", "api.arcee.ai", "api.avian.io", "amazonaws.com", "azure.com", "azure-api.net", "baseten.co",
	"cerebras.ai", "cloudflare.com", "cohere.", "cursor.com", "databricks", "deepseek.com", "doubleword.ai", "elevenlabs.io",
	"fireworks.ai", "githubcopilot.com", "googleapis.com", "groq.com", "huggingface.co", "meta.ai", "minimax", "mistral.ai",
	"modal.", "moonshot.", "novita.ai", "openrouter.ai", "ovh.net", "perplexity.ai", "quicksilverpro.io", "together.xyz",
	"typesafe.ai", "voyageai.com", "api.x.ai", "api.z.ai", "bigmodel.cn",
}

func otherUsageRules(baseURL string) bool {
	for _, part := range otherRules {
		if strings.Contains(baseURL, part) {
			return true
		}
	}
	return false
}
