package wire

import (
	"sort"
	"strings"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// Params is what of the ModelRequestParameters shapes a body.
type Params struct {
	Tools     []*pyjson.Value // function tools, then output tools, as ToolDefinition is written
	Output    map[string]bool // names of output tools
	Functions int             // how many of Tools are function tools
	Mode      string          // output_mode
	Object    *pyjson.Value   // output_object of the mode "native"
	AllowText bool
}

// plainParams are members that mean nothing here when they are null or empty.
var plainParams = []string{"thinking", "cache", "tool_visibility", "revealed_tool_names", "deferred_capability_ids", "allow_image_output", "native_tools"}

// Resolve reads the parameters as prepare_request leaves them. It refuses, by name, what a body would have to show and does
// not here: native tools, tools that are shown later, thinking levels and cache settings of the unified kind, output modes
// other than text, tool and native.
func (a *Ask) Resolve() (*Params, error) {
	p := &Params{Mode: "text", AllowText: true, Output: map[string]bool{}}
	if a.Params == nil {
		return p, nil
	}
	path := "/params"
	for _, m := range a.Params.Members {
		switch m.Name {
		case "function_tools", "output_tools", "output_mode", "output_object", "prompted_output_template", "allow_text_output", "instruction_parts":
		default:
			known := false
			for _, name := range plainParams {
				known = known || name == m.Name
			}
			if !known {
				return nil, Fail(Member, path+pyjson.Pointer(m.Name), "parameter")
			}
			if Truthy(m.Value) || m.Name == "thinking" && m.Value.IsFalse() {
				return nil, Fail(Unsupported, path+pyjson.Pointer(m.Name), m.Name)
			}
		}
	}
	if mode := TextOf(a.Params, "output_mode"); mode != "" {
		p.Mode = mode
	}
	if v := a.Params.Get("allow_text_output"); v != nil {
		p.AllowText = v.IsTrue()
	}
	switch p.Mode {
	case "text", "tool":
	case "native":
		if p.Object = Present(a.Params, "output_object"); p.Object == nil || !a.Profile.Flag("supports_json_schema_output") ||
			a.Profile.Flag("native_output_requires_schema_in_instructions") || Present(a.Params, "prompted_output_template") != nil {
			return nil, Fail(Unsupported, path+"/output_mode", "native output that this model does not take")
		}
	default:
		return nil, Fail(Unsupported, path+"/output_mode", p.Mode)
	}
	for i, tool := range Items(a.Params, "function_tools") {
		for _, name := range []string{"unless_native", "with_native", "include_return_schema", "defer_loading"} {
			if Truthy(tool.Get(name)) {
				return nil, Fail(Unsupported, path+"/function_tools/"+itoa(i)+"/"+name, name)
			}
		}
		p.Tools = append(p.Tools, tool)
	}
	p.Functions = len(p.Tools)
	if p.Mode == "tool" {
		for _, tool := range Items(a.Params, "output_tools") {
			p.Tools = append(p.Tools, tool)
			p.Output[TextOf(tool, "name")] = true
		}
	}
	seen := map[string]bool{}
	for _, tool := range p.Tools {
		name := TextOf(tool, "name")
		if name == "" || seen[name] {
			return nil, Fail(Shape, path, "tools with names of their own expected")
		}
		seen[name] = true
	}
	return p, nil
}

// Choice is a resolved tool choice: "auto", "none" or "required", over all tools (Names nil) or some.
type Choice struct {
	Mode  string
	Names []string // sorted
}

// Only returns the tools of the choice.
func (c Choice) Only(tools []*pyjson.Value) []*pyjson.Value {
	if c.Names == nil {
		return tools
	}
	var out []*pyjson.Value
	for _, t := range tools {
		for _, n := range c.Names {
			if TextOf(t, "name") == n {
				out = append(out, t)
			}
		}
	}
	return out
}

// Choice is resolve_tool_choice.
func (a *Ask) Choice(p *Params) (Choice, error) {
	all := map[string]bool{}
	for _, t := range p.Tools {
		all[TextOf(t, "name")] = true
	}
	some := func(mode string, names map[string]bool) Choice {
		c := Choice{Mode: mode, Names: []string{}}
		for n := range names {
			c.Names = append(c.Names, n)
		}
		sort.Strings(c.Names)
		return c
	}
	open := "required"
	if p.AllowText {
		open = "auto"
	}
	v := a.Setting("tool_choice")
	word, _ := v.Str()
	switch {
	case v == nil || word == "auto":
		return Choice{Mode: open}, nil
	case word == "none" || v.Is(pyjson.Array) && len(v.Items) == 0:
		switch {
		case len(p.Output) > 0 && !p.AllowText && p.Functions == 0:
			return Choice{Mode: "required"}, nil
		case len(p.Output) > 0:
			return some(open, p.Output), nil
		case p.AllowText:
			return Choice{Mode: "none"}, nil
		}
	case word == "required" && p.Functions > 0:
		return Choice{Mode: "required"}, nil
	case v.Is(pyjson.Array):
		names := map[string]bool{}
		for _, item := range v.Items {
			if !all[item.Text] {
				return Choice{}, Fail(Unsupported, "/settings/tool_choice", "a tool that there is not")
			}
			names[item.Text] = true
		}
		if len(names) == len(all) {
			return Choice{Mode: "required"}, nil
		}
		return some("required", names), nil
	}
	return Choice{}, Fail(Unsupported, "/settings/tool_choice", "tool_choice")
}

// CanForce is support_tool_forcing: whether a required tool may be asked for. thinks says whether the model would think.
func (a *Ask) CanForce(thinks bool) (bool, error) {
	v := a.Setting("tool_choice")
	explicit := TextOf(a.Settings, "tool_choice") == "required" || v.Is(pyjson.Array) && len(v.Items) > 0
	if !a.Profile.On("supports_forced_tool_choice") || thinks && !a.Profile.On("supports_forced_tool_choice_with_thinking") {
		if explicit {
			return false, Fail(Refused, "/settings/tool_choice", "forcing tools")
		}
		return false, nil
	}
	return explicit || !(thinks && a.Profile.Flag("forced_tool_choice_disables_thinking")), nil
}

// Description is a tool's description, "" for none.
func Description(tool *pyjson.Value) string { return TextOf(tool, "description") }

// RefuseSettings refuses settings that are in no list: each name stands as it is, prefixes end in "*".
func (a *Ask) RefuseSettings(known ...string) error {
	if a.Settings == nil {
		return nil
	}
next:
	for _, m := range a.Settings.Members {
		for _, k := range known {
			if prefix, ok := strings.CutSuffix(k, "*"); k == m.Name || ok && strings.HasPrefix(m.Name, prefix) {
				continue next
			}
		}
		return Fail(Unsupported, "/settings"+pyjson.Pointer(m.Name), m.Name)
	}
	return nil
}
