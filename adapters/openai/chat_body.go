package openai

import (
	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

// setting maps a model setting to the member of a body that it becomes.
type setting struct{ name, member string }

var chatSettings = []setting{{"frequency_penalty", "frequency_penalty"}, {"logit_bias", "logit_bias"}, {"openai_logprobs", "logprobs"},
	{"openai_prediction", "prediction"}, {"presence_penalty", "presence_penalty"}, {"openai_prompt_cache_key", "prompt_cache_key"},
	{"openai_prompt_cache_retention", "prompt_cache_retention"}, {"seed", "seed"}, {"stop_sequences", "stop"}, {"openai_store", "store"},
	{"temperature", "temperature"}, {"openai_top_logprobs", "top_logprobs"}, {"top_p", "top_p"}, {"openai_user", "user"},
	{"openai_moderation", "moderation"}}

// quietSettings are in no body.
var quietSettings = []string{"timeout", "extra_headers", "tool_choice", "max_tokens", "parallel_tool_calls"}

func (s setting) put(a *wire.Ask, body *pyjson.Value) *pyjson.Value {
	if v := a.Settings.Get(s.name); v != nil {
		return body.With(s.member, wire.Respell(v))
	}
	return body
}

func settingNames(list []setting, more ...string) []string {
	names := append(append([]string{}, quietSettings...), more...)
	for _, s := range list {
		names = append(names, s.name)
	}
	return names
}

// ChatBody returns the body of a chat completions request as a JSON value, for the providers of ChatMessages. The error is a
// *wire.Error; what the SDK would send and this does not render is refused by name.
func ChatBody(a *wire.Ask) (*pyjson.Value, error) {
	switch a.Provider {
	case "groq":
		return groqBody(a)
	case "mistral":
		return mistralBody(a)
	case "huggingface":
		return huggingFaceBody(a)
	}
	if err := a.RefuseSettings(settingNames(chatSettings, "openai_reasoning_effort", "service_tier", "openai_service_tier", "openai_continuous_usage_stats")...); err != nil {
		return nil, err
	}
	p, err := a.Resolve()
	if err != nil {
		return nil, err
	}
	a = withoutSampling(a)
	messages, err := ChatMessages(a)
	if err != nil {
		return nil, err
	}
	tools, choice, err := chatTools(a, p)
	if err != nil {
		return nil, err
	}
	body := wire.Obj("model", a.Model, "stream", a.Stream, "messages", pyjson.NewArray(messages...))
	if a.Stream {
		options := wire.Obj("include_usage", true)
		if wire.Truthy(a.Setting("openai_continuous_usage_stats")) {
			options = options.With("continuous_usage_stats", pyjson.NewBool(true))
		}
		body = body.With("stream_options", options)
	}
	for _, s := range chatSettings {
		body = s.put(a, body)
	}
	member := "max_completion_tokens"
	if !a.Profile.On("openai_chat_supports_max_completion_tokens") {
		member = "max_tokens"
	}
	body = setting{"max_tokens", member}.put(a, body)
	for _, name := range []string{"openai_service_tier", "service_tier"} {
		if tier := a.Setting(name); wire.Truthy(tier) {
			body = body.With("service_tier", tier)
			break
		}
	}
	if effort := a.Setting("openai_reasoning_effort"); wire.Truthy(effort) && a.Provider != "zai" {
		body = body.With("reasoning_effort", effort)
	}
	if len(tools) > 0 {
		body = body.With("tools", pyjson.NewArray(tools...)).With("tool_choice", choice)
		body = setting{"parallel_tool_calls", "parallel_tool_calls"}.put(a, body)
	}
	if p.Mode == "native" {
		body = body.With("response_format", responseFormat(a, p, a.Profile.On("openai_supports_strict_tool_definition")))
		if p.Object.Get("strict") == nil || transformerOf(a) != "" {
			return nil, wire.Fail(wire.Unsupported, "/params/output_object", "native output")
		}
	}
	if a.Provider == "zai" && a.Profile.Flag("supports_thinking") {
		body = body.With("thinking", wire.Obj("clear_thinking", false))
	}
	return body, nil
}

// withoutSampling drops the settings that a model which reasons does not take, and those it does not know at all.
func withoutSampling(a *wire.Ask) *wire.Ask {
	if a.Settings == nil {
		return a
	}
	settings := a.Settings
	drop := a.Profile.Flag("openai_supports_reasoning")
	if drop && a.Profile.Flag("openai_supports_reasoning_effort_none") {
		drop = thinks(a)
	}
	for _, m := range a.Settings.Members {
		for _, name := range sampling {
			if drop && m.Name == name {
				settings = settings.Without(name)
			}
		}
		if a.Profile.Has("openai_unsupported_model_settings", m.Name) {
			settings = settings.Without(m.Name)
		}
	}
	b := *a
	b.Settings = settings
	return &b
}

// thinks is _reasoning_active.
func thinks(a *wire.Ask) bool {
	if effort := a.Setting("openai_reasoning_effort"); effort != nil {
		return effort.Text != "none"
	}
	return a.Profile.Flag("thinking_enabled_by_default")
}

func transformerOf(a *wire.Ask) string { return a.Profile.Text("json_schema_transformer") }

// schemaOf returns a tool's parameters as the model's transformer leaves them, and its strict flag.
func schemaOf(a *wire.Ask, tool *pyjson.Value) (*pyjson.Value, bool, error) {
	parameters := tool.Get("parameters_json_schema")
	if parameters == nil {
		parameters = wire.Obj("type", "object", "properties", pyjson.NewObject())
	}
	strict := tool.Get("strict")
	switch transformerOf(a) {
	case "":
		return wire.Respell(parameters), strict.IsTrue(), nil
	case "InlineDefsJsonSchemaTransformer":
		out, err := wire.SchemaRewrite{Inline: true, Deeper: a.Version == pydanticai.V2580}.Apply(parameters, "/params/"+wire.TextOf(tool, "name"))
		if err != nil {
			return nil, false, err
		}
		return wire.Respell(out), !strict.IsFalse(), nil
	case "OpenAIJsonSchemaTransformer":
		t := transformer{strict: strict, compatible: true}
		out := t.walk(parameters)
		if t.unsupported {
			return nil, false, wire.Fail(wire.Unsupported, "/params/"+wire.TextOf(tool, "name"), "schema")
		}
		return wire.Respell(out), strict.IsTrue() || !strict.Is(pyjson.Bool) && t.compatible, nil
	}
	return nil, false, wire.Fail(wire.Unsupported, "/params/"+wire.TextOf(tool, "name"), transformerOf(a))
}

func chatTool(a *wire.Ask, tool *pyjson.Value, strict bool) (*pyjson.Value, error) {
	parameters, isStrict, err := schemaOf(a, tool)
	if err != nil {
		return nil, err
	}
	function := wire.Obj("name", tool.Get("name"), "description", wire.Description(tool), "parameters", parameters)
	if strict && isStrict && a.Profile.On("openai_supports_strict_tool_definition") {
		function = function.With("strict", pyjson.NewBool(true))
	}
	return wire.Obj("type", "function", "function", function), nil
}

func chatTools(a *wire.Ask, p *wire.Params) ([]*pyjson.Value, *pyjson.Value, error) {
	c, err := a.Choice(p)
	if err != nil {
		return nil, nil, err
	}
	choice, defs := pyjson.NewString(c.Mode), p.Tools
	if c.Names != nil || c.Mode == "required" {
		can, err := a.CanForce(thinks(a) && a.Provider != "openrouter")
		if err != nil {
			return nil, nil, err
		}
		if c.Names != nil && c.Mode == "required" && len(c.Names) == 1 && can {
			choice = wire.Obj("type", "function", "function", wire.Obj("name", c.Names[0]))
		} else {
			defs = c.Only(p.Tools)
			if !can {
				choice = pyjson.NewString("auto")
			}
		}
	}
	var tools []*pyjson.Value
	for _, def := range defs {
		tool, err := chatTool(a, def, true)
		if err != nil {
			return nil, nil, err
		}
		tools = append(tools, tool)
	}
	return tools, choice, nil
}

func responseFormat(a *wire.Ask, p *wire.Params, strict bool) *pyjson.Value {
	name := wire.TextOf(p.Object, "name")
	if name == "" {
		name = "final_result"
	}
	format := wire.Obj("name", name, "schema", p.Object.Get("json_schema"))
	if d := wire.TextOf(p.Object, "description"); d != "" {
		format = format.With("description", pyjson.NewString(d))
	}
	if strict {
		format = format.With("strict", orNull(p.Object.Get("strict")))
	}
	return wire.Obj("type", "json_schema", "json_schema", format)
}

// plainTools are the tools and choice of the models that know of no strict schemas and no forcing that may fail.
func plainTools(a *wire.Ask, p *wire.Params) ([]*pyjson.Value, wire.Choice, error) {
	c, err := a.Choice(p)
	if err != nil {
		return nil, c, err
	}
	defs := p.Tools
	if !(c.Names != nil && c.Mode == "required" && len(c.Names) == 1) {
		defs = c.Only(p.Tools)
	}
	var tools []*pyjson.Value
	for _, def := range defs {
		tool, err := chatTool(a, def, false)
		if err != nil {
			return nil, c, err
		}
		tools = append(tools, tool)
	}
	return tools, c, nil
}

var groqSettings = []setting{{"stop_sequences", "stop"}, {"max_tokens", "max_tokens"}, {"temperature", "temperature"}, {"top_p", "top_p"}, {"seed", "seed"},
	{"presence_penalty", "presence_penalty"}, {"frequency_penalty", "frequency_penalty"}, {"logit_bias", "logit_bias"},
	{"groq_reasoning_format", "reasoning_format"}, {"groq_reasoning_effort", "reasoning_effort"}}

func groqBody(a *wire.Ask) (*pyjson.Value, error) {
	if err := a.RefuseSettings(settingNames(groqSettings)...); err != nil {
		return nil, err
	}
	p, err := a.Resolve()
	if err != nil {
		return nil, err
	}
	if p.Mode == "native" {
		return nil, wire.Fail(wire.Unsupported, "/params/output_mode", "native output")
	}
	messages, err := ChatMessages(a)
	if err != nil {
		return nil, err
	}
	tools, c, err := plainTools(a, p)
	if err != nil {
		return nil, err
	}
	body := wire.Obj("model", a.Model, "messages", pyjson.NewArray(messages...), "n", 1, "stream", a.Stream)
	for _, s := range groqSettings {
		body = s.put(a, body)
	}
	if len(tools) > 0 {
		choice := pyjson.NewString(c.Mode)
		if c.Names != nil && c.Mode == "required" && len(c.Names) == 1 {
			choice = wire.Obj("type", "function", "function", wire.Obj("name", c.Names[0]))
		}
		body = body.With("tools", pyjson.NewArray(tools...)).With("tool_choice", choice)
		body = setting{"parallel_tool_calls", "parallel_tool_calls"}.put(a, body)
	}
	return body, nil
}

var mistralSettings = []setting{{"max_tokens", "max_tokens"}, {"temperature", "temperature"}, {"seed", "random_seed"}, {"mistral_prompt_cache_key", "prompt_cache_key"},
	{"presence_penalty", "presence_penalty"}, {"frequency_penalty", "frequency_penalty"}, {"stop_sequences", "stop"}, {"top_p", "top_p"}}

func huggingFaceBody(a *wire.Ask) (*pyjson.Value, error) {
	list := []setting{{"max_tokens", "max_tokens"}, {"stop_sequences", "stop"}, {"temperature", "temperature"}, {"top_p", "top_p"}, {"seed", "seed"},
		{"presence_penalty", "presence_penalty"}, {"frequency_penalty", "frequency_penalty"}, {"logit_bias", "logit_bias"}, {"logprobs", "logprobs"},
		{"top_logprobs", "top_logprobs"}}
	if err := a.RefuseSettings(settingNames(list)...); err != nil {
		return nil, err
	}
	p, err := a.Resolve()
	if err != nil {
		return nil, err
	}
	messages, err := ChatMessages(a)
	if err != nil {
		return nil, err
	}
	tools, c, err := plainTools(a, p)
	if err != nil {
		return nil, err
	}
	body := wire.Obj("model", a.Model, "messages", pyjson.NewArray(messages...), "stream", a.Stream, "tools", pyjson.NewArray())
	for _, s := range list {
		if a.Setting(s.name) != nil {
			body = s.put(a, body)
		}
	}
	if len(tools) > 0 {
		for i, tool := range tools {
			f := tool.Get("function")
			if f.Get("description").Text == "" && wire.PtrOf(toolNamed(p, wire.TextOf(f, "name")), "description") == nil {
				f = f.Without("description")
			}
			if tools[i] = tool.With("function", withoutNullMembers(f)); hasNullItem(f) {
				return nil, wire.Fail(wire.Unsupported, "/params/"+wire.TextOf(f, "name"), "null in an array of a schema")
			}
		}
		choice := pyjson.NewString(c.Mode)
		if c.Names != nil && c.Mode == "required" && len(c.Names) == 1 {
			choice = wire.Obj("function", wire.Obj("name", c.Names[0]))
		}
		body = body.With("tools", pyjson.NewArray(tools...)).With("tool_choice", choice)
	}
	return body, nil
}

func toolNamed(p *wire.Params, name string) *pyjson.Value {
	for _, t := range p.Tools {
		if wire.TextOf(t, "name") == name {
			return t
		}
	}
	return nil
}

// withoutNullMembers is what Hugging Face's client does to tools.
func withoutNullMembers(v *pyjson.Value) *pyjson.Value {
	switch v.Kind {
	case pyjson.Array:
		out := pyjson.NewArray()
		for _, item := range v.Items {
			out.Items = append(out.Items, withoutNullMembers(item))
		}
		return out
	case pyjson.Object:
		out := pyjson.NewObject()
		for _, m := range v.Members {
			if m.Value.Kind != pyjson.Null {
				out.Members = append(out.Members, pyjson.Member{Name: m.Name, Value: withoutNullMembers(m.Value)})
			}
		}
		return out
	}
	return v
}

func hasNullItem(v *pyjson.Value) bool {
	for _, item := range v.Items {
		if item.Kind == pyjson.Null || hasNullItem(item) {
			return true
		}
	}
	for _, m := range v.Members {
		if hasNullItem(m.Value) {
			return true
		}
	}
	return false
}

func mistralBody(a *wire.Ask) (*pyjson.Value, error) {
	if err := a.RefuseSettings(settingNames(mistralSettings)...); err != nil {
		return nil, err
	}
	p, err := a.Resolve()
	if err != nil {
		return nil, err
	}
	messages, err := ChatMessages(a)
	if err != nil {
		return nil, err
	}
	c, err := a.Choice(p)
	if err != nil {
		return nil, err
	}
	forced := c.Names != nil && c.Mode == "required" && len(c.Names) == 1 && a.Version == pydanticai.V2580
	defs := p.Tools
	if !forced {
		defs = c.Only(p.Tools)
	}
	var tools []*pyjson.Value
	for _, def := range defs {
		tool, err := chatTool(a, def, false)
		if err != nil {
			return nil, err
		}
		tools = append(tools, tool)
	}
	if c.Mode == "none" {
		tools = nil
	}
	if a.Stream && len(tools) == 0 && len(p.Output) > 0 {
		return nil, wire.Fail(wire.Unsupported, "/params/output_tools", "output asked for in words")
	}
	body := wire.Obj("model", a.Model, "messages", pyjson.NewArray(messages...), "stream", a.Stream, "stop", pyjson.NewNull(),
		"presence_penalty", pyjson.NewNull(), "frequency_penalty", pyjson.NewNull(), "top_p", pyjson.NewNumber("1.0"), "n", 1)
	if a.Stream && len(tools) == 0 {
		body = body.Without("n").With("top_p", pyjson.NewNull())
	}
	for _, s := range mistralSettings {
		body = s.put(a, body)
		switch v := body.Get(s.member); s.member {
		case "temperature", "top_p", "presence_penalty", "frequency_penalty": // which the client declares as floats
			if v.IsInteger() {
				body = body.With(s.member, wire.Respell(pyjson.NewNumber(v.Text+".0")))
			}
		case "max_tokens", "random_seed":
			if v != nil && !v.IsInteger() {
				return nil, wire.Fail(wire.Unsupported, "/settings/"+s.name, "integer expected")
			}
		}
	}
	if len(tools) > 0 {
		choice := pyjson.NewString(map[string]string{"auto": "auto", "required": "any"}[c.Mode])
		if forced {
			choice = wire.Obj("type", "function", "function", wire.Obj("name", c.Names[0]))
		}
		body = body.With("tools", pyjson.NewArray(tools...)).With("tool_choice", choice)
	}
	return setting{"parallel_tool_calls", "parallel_tool_calls"}.put(a, body), nil
}
