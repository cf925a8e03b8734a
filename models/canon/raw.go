package canon

import (
	"bytes"
	"errors"
)

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
