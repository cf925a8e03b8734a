package agentic

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/forge-continuity/forge/adapters/anthropic"
	"github.com/forge-continuity/forge/adapters/bedrock"
	"github.com/forge-continuity/forge/adapters/google"
	"github.com/forge-continuity/forge/adapters/openai"
	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

// A codec reads and writes one wire.
type codec struct {
	parse, parseStream func(wire.Options, []byte) (*wire.Response, error)
	body               func(*wire.Ask) (*pyjson.Value, error)
	conversation       string // the member of a body that grows with the history
}

// Names of the wires, as a contract's provider configuration has them in model.wire.
const (
	wireChat      = "openai-chat"
	wireResponses = "openai-responses"
	wireAnthropic = "anthropic"
	wireGoogle    = "google"
	wireBedrock   = "bedrock"
)

var codecs = map[string]codec{
	wireChat:      {openai.ParseChat, openai.ParseChatStream, openai.ChatBody, "messages"},
	wireResponses: {openai.ParseResponses, openai.ParseResponsesStream, openai.ResponsesBody, "input"},
	wireAnthropic: {anthropic.Parse, anthropic.ParseStream, anthropic.Body, "messages"},
	wireGoogle:    {google.Parse, google.ParseStream, google.Body, "contents"},
	wireBedrock:   {bedrock.Parse, bedrock.ParseStream, bedrock.Body, "messages"},
}

// chatDialects are the providers of chat completions whose answers the SDK reads by classes of their own.
var chatDialects = map[string]codec{
	"groq": {func(o wire.Options, b []byte) (*wire.Response, error) { return openai.ParseGroq(o, 200, b) }, openai.ParseGroqStream,
		openai.ChatBody, "messages"},
	"mistral":     {openai.ParseMistral, openai.ParseMistralStream, openai.ChatBody, "messages"},
	"huggingface": {openai.ParseHuggingFace, openai.ParseHuggingFaceStream, openai.ChatBody, "messages"},
}

// wireOfProvider is the wire of a provider whose configuration names none.
var wireOfProvider = map[string]string{
	openai.ProviderName: wireChat, "deepseek": wireChat, "groq": wireChat, "huggingface": wireChat, "mistral": wireChat, "ollama": wireChat,
	"openrouter": wireChat, "zai": wireChat, "anthropic": wireAnthropic, "google": wireGoogle, "google-cloud": wireGoogle, "bedrock": wireBedrock,
}

// modelOf is the provider configuration of a run, which its registered contract holds: which wire is spoken, and whether streamed.
type modelOf struct {
	provider, name, baseURL, wire string
	stream                        bool
	settings                      *pyjson.Value
}

func readModel(contract *pyjson.Value) modelOf {
	v := contract.Get("model")
	m := modelOf{provider: v.Get("provider").Text, name: v.Get("name").Text, baseURL: v.Get("base_url").Text,
		stream: v.Get("stream").IsTrue(), settings: v.Get("settings")}
	if m.wire, _ = v.Get("wire").Str(); m.wire == "" {
		m.wire = wireOfProvider[m.provider]
	}
	return m
}

// codec is what speaks the wire; ok is false where nothing here does.
func (m modelOf) codec() (c codec, ok bool) {
	if c, ok := chatDialects[m.provider]; ok && m.wire == wireChat {
		return c, true
	}
	c, ok = codecs[m.wire]
	return c, ok
}

// exact reports whether requests of this wire are rendered here byte for byte. Of the others the JSON value is.
func (m modelOf) exact() bool {
	return m.wire == wireChat && m.provider == openai.ProviderName
}

// wired holds a wire that is not spoken here, by its name, and a model whose profile is not known.
func (r *reconstruction) wired(c *Checkpoint) bool {
	m := readModel(c.contract())
	name := m.wire
	if name == "" {
		name = m.provider
	}
	if _, ok := m.codec(); !ok {
		r.hold("response_unparsable", details{"reason": "wire_not_supported", "wire": knownVersion(name)})
		return false
	}
	if m.exact() && !m.stream {
		return true
	}
	if _, ok := wire.ProfileOf(c.Version, m.wire, m.provider, m.name); !ok {
		r.hold("response_unparsable", details{"reason": "model_without_profile", "wire": knownVersion(name)})
		return false
	}
	return true
}

func (m modelOf) options(v pydanticai.Version, contract *pyjson.Value, atUS int64) wire.Options {
	o := wire.Options{Version: v, Provider: m.provider, BaseURL: m.baseURL, Model: m.name, AtUS: atUS, NewID: wire.CountedID}
	o.Profile, _ = wire.ProfileOf(v, m.wire, m.provider, m.name)
	if contract.At("output", "output_mode").Text == "tool" {
		for _, tool := range contract.At("output", "output_tools").Items {
			o.Request.OutputTools = append(o.Request.OutputTools, tool.Get("name").Text)
		}
	}
	o.Request.RawAnnotations = m.settings.Get("openai_include_raw_annotations").IsTrue()
	o.Request.RecordsHistory = wire.Present(m.settings, "openai_previous_response_id") != nil
	return o
}

// ask is what the SDK would be given for one request under a contract.
func (m modelOf) ask(v pydanticai.Version, contract, history *pyjson.Value) *wire.Ask {
	output := contract.Get("output")
	params := object("function_tools", contract.Get("tools"), "instruction_parts", contract.Get("instructions"))
	for _, name := range []string{"output_mode", "output_tools", "output_object", "allow_text_output", "allow_image_output"} {
		params = params.With(name, output.Get(name))
	}
	return &wire.Ask{Options: m.options(v, contract, 0), History: history, Settings: m.settings, Params: params, Stream: m.stream}
}

// consumed is a response as the parser of its wire reads it.
type consumed struct {
	message     *pyjson.Value
	unsupported []openai.Unsupported
}

func (a *consumed) usage() *pyjson.Value { return a.message.Get("usage") }

// read gives a response's bytes to the parser of the run's wire. A code of response_unparsable or response_content_unsupported
// comes back as a hold.
func (r *reconstruction) read(raw []byte) *consumed {
	c, last := r.target, r.target.last()
	m := readModel(c.contract())
	run, conversation := last.Get("run_id"), last.Get("conversation_id")
	if m.exact() && !m.stream {
		response, err := openai.Parse(c.Version, m.baseURL, raw)
		if err != nil {
			d := details{"reason": "rejected by the parser"}
			if parse, ok := err.(*openai.ParseError); ok {
				d = details{"path": plainPath(parse.Path), "reason": parse.Reason}
			}
			r.hold("response_unparsable", d)
			return nil
		}
		return &consumed{pydanticai.NewResponse(c.Version, pydanticai.Response{
			Parts: response.Parts, Usage: response.Usage, ModelName: response.ModelName, AtUS: r.params.ConsumedAtUS,
			ProviderName: openai.ProviderName, ProviderURL: m.baseURL, ProviderDetails: response.ProviderDetails,
			ResponseID: response.ResponseID, FinishReason: response.FinishReason, RunID: run, ConversationID: conversation,
		}), response.Unsupported}
	}
	o := m.options(c.Version, c.contract(), r.params.ConsumedAtUS)
	speaks, _ := m.codec()
	parse := speaks.parse
	if m.stream {
		parse = speaks.parseStream
	}
	response, err := parse(o, raw)
	if err != nil {
		r.holdOf(err, "response_unparsable")
		return nil
	}
	a := &consumed{message: settleIDs(response.Message(o, run, conversation), raw)}
	for _, d := range response.Dropped {
		a.unsupported = append(a.unsupported, openai.Unsupported{Path: d.Path, Kind: d.Name})
	}
	if state := a.message.Get("state").Text; state != "complete" {
		a.unsupported = append(a.unsupported, openai.Unsupported{Path: "/state", Kind: "state_" + state})
	}
	for i, part := range a.message.Get("parts").Items {
		switch kind := part.Get("part_kind").Text; kind {
		case "text", "thinking", "tool-call":
		default:
			a.unsupported = append(a.unsupported, openai.Unsupported{Path: "/parts/" + itoa(i), Kind: kind})
		}
	}
	return a
}

// holdOf turns a codec's refusal into a hold: what is known and not carried here apart from what no parser takes.
func (r *reconstruction) holdOf(err error, code string) {
	d := details{"reason": "rejected by the parser"}
	if e, ok := err.(*wire.Error); ok {
		d = details{"path": plainPath(e.Path), "reason": e.Code}
		if e.Code == wire.Unsupported && code == "response_unparsable" {
			code, d = "response_content_unsupported", details{"kind": "unsupported", "path": plainPath(e.Path)}
		}
	}
	r.hold(code, d)
}

// settleIDs gives the calls that the provider left without an id the ids that a recording worker gives them: computed from the
// response, so that every reading has the same ones (clients/python, _settle_ids).
func settleIDs(message *pyjson.Value, raw []byte) *pyjson.Value {
	parts := pyjson.NewArray()
	for i, part := range message.Get("parts").Items {
		if id, _ := part.Get("tool_call_id").Str(); strings.HasPrefix(id, "pyd_ai_") && !strings.Contains(string(raw), id) {
			part = part.With("tool_call_id", pyjson.NewString("pyd_ai_"+tagged("forge-continuity.call/1", raw, []byte(itoa(i)))[:32]))
		}
		parts.Items = append(parts.Items, part)
	}
	return message.With("parts", parts)
}

// tagged is models.Tagged, which the guest does not import.
func tagged(tag string, parts ...[]byte) string {
	h := sha256.New()
	h.Write([]byte(tag))
	h.Write([]byte{0})
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// render returns the body of a request of this record's wire, or adds a hold where the request uses something that is not
// rendered here: the bytes as the SDK and its client send them where the wire is exact, else the JSON value in canonical form.
func (r *reconstruction) render(c *Checkpoint, contract, history *pyjson.Value) []byte {
	m, output := readModel(contract), contract.Get("output")
	mode := output.Get("output_mode").Text
	if mode != "text" && mode != "tool" || output.Get("allow_image_output").IsTrue() {
		r.hold("sandbox_stopped", details{"reason": "request_not_rendered", "path": "/contract/output"})
		return nil
	}
	if !m.exact() {
		speaks, _ := m.codec()
		body, err := speaks.body(m.ask(c.Version, contract, history))
		if err != nil {
			d := details{"reason": "request_not_rendered"}
			if e, ok := err.(*wire.Error); ok {
				d["path"] = plainPath(e.Path)
			}
			r.hold("sandbox_stopped", d)
			return nil
		}
		return pyjson.Encode(pyjson.Respelled(body))
	}
	request := openai.Request{Version: c.Version, Model: m.name, Settings: m.settings, Tools: contract.Get("tools").Items,
		OutputTools: output.Get("output_tools").Items, AllowText: output.Get("allow_text_output").IsTrue(), Stream: m.stream, History: history}
	for _, i := range contract.Get("instructions").Items {
		request.Instructions = append(request.Instructions, i.Get("content").Text)
	}
	body, err := openai.Build(request)
	if err != nil {
		d := details{"reason": "request_not_rendered"}
		if no, ok := err.(*openai.UnsupportedError); ok {
			d["path"] = plainPath(no.Path)
		}
		r.hold("sandbox_stopped", d)
		return nil
	}
	return body
}

// sentAs reports whether a rendered request is the one that was sent: byte for byte where the wire is exact, else as a JSON value
// with numbers as CPython spells them.
func sentAs(m modelOf, rendered, sent []byte) bool {
	if m.exact() {
		return string(rendered) == string(sent)
	}
	limits := pyjson.Limits{Bytes: 2 * MaxRecordBytes, Depth: MaxRecordDepth, Nodes: MaxRecordNodes}
	a, err := pyjson.Parse(rendered, limits)
	b, err2 := pyjson.Parse(sent, limits)
	return err == nil && err2 == nil && pyjson.Equal(a, pyjson.Respelled(b))
}
