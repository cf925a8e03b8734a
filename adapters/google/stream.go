package google

import (
	"strings"

	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

// ParseStream reads a whole stream of streamGenerateContent with alt=sse, as GeminiStreamedResponse does. A stream in which no
// candidate finished and no prompt was blocked is wire.Truncated.
func ParseStream(o wire.Options, body []byte) (*wire.Response, error) {
	events, err := wire.Events(body)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, wire.Fail(wire.Truncated, "", "an empty stream")
	}
	ids := o.NewIDs()
	s := &stream{p: parser{o: o, ids: ids, stream: true}, m: wire.NewManager(ids, o.Request.ToolKinds), details: pyjson.NewObject()}
	s.r.ModelName = o.Model
	for i, e := range events {
		path := "/" + itoa(i)
		if e.Name != "" {
			return nil, wire.Fail(wire.Kind, path, "a named event")
		}
		v, err := wire.ParseJSON([]byte(e.Data), path)
		if err != nil {
			return nil, err
		}
		if wire.Truthy(v.Get("error")) {
			return nil, wire.Fail(wire.Refused, path+"/error", "error")
		}
		c := shapes().Checker()
		if err := c.Check(v, "GenerateContentResponse", path); err != nil {
			return nil, err
		}
		s.p.dropped = append(s.p.dropped, c.Dropped...)
		if err := s.chunk(v, path, i == 0); err != nil {
			if e, ok := err.(*wire.Error); ok && !strings.HasPrefix(e.Path, path) {
				return nil, wire.Fail(e.Code, path+e.Path, e.Reason)
			}
			return nil, err
		}
	}
	if !s.finished {
		return nil, wire.Fail(wire.Truncated, "", "no finish reason")
	}
	if !o.Old() {
		s.finish()
	}
	if err := ids.Err(); err != nil {
		return nil, err
	}
	if s.r.Parts, err = s.m.Encode(); err != nil {
		return nil, err
	}
	if len(s.details.Members) > 0 {
		s.r.ProviderDetails = s.details
	}
	s.r.Usage, s.r.ProviderName, s.r.ProviderURL = s.usage, o.Provider, &o.BaseURL
	seen := map[string]bool{}
	for _, d := range s.p.dropped {
		if !seen[d.Name] {
			seen[d.Name] = true
			s.r.Dropped = append(s.r.Dropped, d)
		}
	}
	return &s.r, nil
}

// finish adds what only the grounding metadata of the whole stream tells.
func (s *stream) finish() {
	for _, part := range s.files {
		fillFileSearch(part, s.ground)
	}
	if s.web != nil {
		fillSources(s.web, s.ground)
	}
	if !s.native {
		for _, part := range s.p.grounding(s.ground, s.searches) {
			s.m.Put("", part)
		}
	}
}

type stream struct {
	p        parser
	m        *wire.Manager
	r        wire.Response
	usage    wire.Usage
	details  *pyjson.Value
	ground   *pyjson.Value
	native   bool
	finished bool
	filtered bool
	codeID   string
	searches []string
	files    []*wire.Part
	web      *wire.Part
}

func (s *stream) chunk(v *pyjson.Value, path string, first bool) (err error) {
	if first {
		if m := wire.TextOf(v, "modelVersion"); m != "" {
			s.r.ModelName = m
		}
	}
	if s.details, err = s.p.common(s.details, v, first); err != nil {
		return err
	}
	if s.usage, err = s.p.usage(&s.usage, v, path); err != nil {
		return err
	}
	id := wire.PtrOf(v, "responseId")
	if id != nil && *id == "" {
		id = nil
	}
	candidate := s.p.candidate(v, path)
	if candidate == nil {
		if f := wire.Present(v, "promptFeedback"); wire.TextOf(f, "blockReason") != "" {
			s.filtered, s.finished = true, true
			s.details = blocked(s.details, f)
			s.r.FinishReason = "content_filter"
			if id != nil {
				s.r.ResponseID = id
			}
		}
		return nil
	}
	if err := s.p.unsupported(candidate, ""); err != nil {
		return err
	}
	if id != nil {
		if s.r.ResponseID != nil && *s.r.ResponseID != *id {
			return wire.Fail(wire.Unsupported, "/responseId", "another response")
		}
		s.r.ResponseID = id
	}
	if raw := wire.TextOf(candidate, "finishReason"); raw != "" {
		s.finished = true
		if !s.filtered {
			s.details = s.details.With("finish_reason", pyjson.NewString(raw))
			if ratings := wire.Items(candidate, "safetyRatings"); len(ratings) > 0 {
				s.details = s.details.With("safety_ratings", safetyRatings(ratings))
			}
			s.r.FinishReason = finishReasons[raw]
		}
	}
	if g := wire.Present(candidate, "groundingMetadata"); g != nil {
		s.ground = g
	}
	if !s.native {
		for _, part := range s.p.urlContext(wire.Present(candidate, "urlContextMetadata")) {
			s.m.Put("", part)
		}
	}
	parts := wire.Items(wire.Present(candidate, "content"), "parts")
	s.native = s.native || hasNative(parts)
	for i, part := range parts {
		if err := s.part(part, "/candidates/0/content/parts/"+itoa(i)); err != nil {
			return err
		}
	}
	if s.p.o.Old() && len(parts) > 0 {
		s.groundFiles(wire.Present(candidate, "groundingMetadata"))
	}
	return nil
}

// groundFiles gives file searches their results as V2330 does: from the chunk they end in, and from no later one.
func (s *stream) groundFiles(grounding *pyjson.Value) {
	if s.native {
		for _, part := range s.files {
			fillFileSearch(part, grounding)
		}
		return
	}
	list := contexts(grounding)
	if n := len(s.searches); n > 0 && len(list.Items) > 0 {
		s.m.Put("", &wire.Part{Kind: wire.NativeReturn, Tool: "file_search", CallID: s.searches[n-1], Value: list, Provider: &s.p.o.Provider, AtUS: s.p.o.AtUS})
		s.searches = nil
	}
}

func (s *stream) part(v *pyjson.Value, path string) error {
	kind, err := partKind(v, path)
	if err != nil {
		return err
	}
	part, details, err := s.p.part(v, kind, path, &s.codeID)
	if err != nil || part == nil {
		return err
	}
	var provider *string
	if details != nil {
		provider = &s.p.o.Provider
	}
	switch part.Kind {
	case wire.Text:
		_, _, err = s.m.Text("", wire.TextDelta{Content: part.Content, Provider: provider, Details: details})
		return err
	case wire.Thinking:
		_, err = s.m.Think("", wire.ThinkingDelta{Content: &part.Content, Provider: provider, Details: details})
		return err
	case wire.ToolCall, wire.File:
		if part.Kind == wire.File && wire.Present(v, "thought").IsTrue() {
			s.p.drop(path, "thought image", true)
			return nil
		}
		part.Provider, part.Details = provider, details
		s.m.Put("", part)
		return nil
	}
	part.Details = details
	switch {
	case part.Kind == wire.NativeReturn && part.Tool == "web_search":
		s.web = part
	case part.Kind == wire.NativeReturn && part.Tool == "file_search" && part.Value == nil:
		s.files = append(s.files, part)
	case part.Kind == wire.NativeCall && part.Tool == "file_search" && kind == "executableCode":
		s.searches = append(s.searches, part.CallID)
	}
	s.m.Put("", part)
	return nil
}
