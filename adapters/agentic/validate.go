package agentic

import (
	"github.com/forge-continuity/forge/adapters/agentic/schema"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

// Verdict is the result of validate.
type Verdict struct {
	QueryIsObject    bool `json:"query_is_object"`
	SchemaAccepts    bool `json:"schema_accepts"`
	ValidatorAccepts bool `json:"validator_accepts"`
}

// Validate judges the text of a query (a call's arguments as the model wrote them) by an advertised schema and by a registered
// validator. A text that is no JSON object is accepted by neither.
func Validate(catalogue *Catalogue, validator string, query, advertised []byte) (*Verdict, *Hold) {
	v := catalogue.validator(validator)
	if v == nil {
		h := newHold("validator_unregistered", nil)
		return nil, &h
	}
	schema, err := pyjson.Parse(advertised, recordLimits)
	if err != nil {
		h := newHold("request_malformed", details{"where": "schema", "reason": "not JSON"})
		return nil, &h
	}
	value, ok := parseQuery(query)
	verdict := &Verdict{QueryIsObject: ok && value.Is(pyjson.Object), ValidatorAccepts: v.Rule.Accepts(query)}
	if !verdict.QueryIsObject {
		return verdict, nil
	}
	accepts, hold := schemaAccepts(schema, value, "query_outside_schema", nil)
	if hold != nil && hold.noVerdict {
		return nil, &hold.Hold
	}
	verdict.SchemaAccepts = accepts
	return verdict, nil
}

// schemaHold is why a frozen schema does not accept a value: it rejects it, or it gives no verdict.
type schemaHold struct {
	Hold
	noVerdict bool
}

// schemaAccepts evaluates a frozen schema (JSON Schema 2020-12, without coercion or defaults). d are facts for the hold.
func schemaAccepts(frozen, value *pyjson.Value, code string, d details) (bool, *schemaHold) {
	s, err := schema.Compile(frozen)
	ok := false
	if err == nil {
		ok, err = s.Accepts(value)
	}
	if ok && err == nil {
		return true, nil
	}
	facts := details{}
	for k, v := range d {
		facts[k] = v
	}
	if no, is := err.(*schema.UnsupportedError); is {
		facts["reason"], facts["schema_path"] = "schema_without_verdict", plainPath(no.Path)
	}
	return false, &schemaHold{newHold(code, facts), err != nil}
}

// validateParams are the parameters of validate.
type validateParams struct {
	Validator string `json:"validator"`
}

func callValidate(frames map[string][]byte, params canon.Raw) (*output, *guestabi.Refusal) {
	var p validateParams
	if err := canon.Unmarshal(params, &p); err != nil {
		return nil, malformed("params", "validator expected")
	}
	catalogue, err := catalogueOf(frames["catalogue"])
	if err != nil {
		return nil, malformed("catalogue", "not a catalogue that this module can use")
	}
	verdict, hold := Validate(catalogue, p.Validator, frames["query"], frames["schema"])
	if hold != nil {
		return nil, &guestabi.Refusal{Code: hold.Code, Details: hold.Details}
	}
	return &output{result: verdict}, nil
}
