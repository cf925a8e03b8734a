package canon

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Encoder is what a type that writes itself (MarshalJSONTo) is given.
type Encoder = jsontext.Encoder

// Encode writes v, in whatever spelling: Marshal makes it canonical.
func Encode(e *Encoder, v any) error { return json.MarshalEncode(e, v) }

// Raw is a member that stays JSON text. Marshal writes its canonical spelling; nil is null.
type Raw []byte

// MarshalJSON returns the text itself.
func (r Raw) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON keeps a copy of the text.
func (r *Raw) UnmarshalJSON(b []byte) error {
	if r == nil {
		return errors.New("canon.Raw: UnmarshalJSON on nil pointer")
	}
	*r = bytes.Clone(b)
	return nil
}
