package agentic

import (
	"bytes"
	"errors"

	"github.com/forge-continuity/forge/models/canon"
)

// checkSuccessors lets a second validator of a class in only as a reviewed successor of the first: its class reads the same to the byte,
// and so do the rule and with it the JSON schema that the class has (CRED-02). The files have been compared with their hashes.
func (c *Catalogue) checkSuccessors(file func(name string) ([]byte, error)) error {
	for i, v := range c.Validators {
		for _, first := range c.Validators[:i] {
			if first.Class != v.Class {
				continue
			}
			var text [2][]byte
			for j, name := range []string{first.Source, v.Source} {
				data, err := file(name)
				if err != nil {
					return err
				}
				if text[j] = classText(data, v.Class); text[j] == nil {
					return errors.New("catalogue: " + name + " has no class " + v.Class)
				}
			}
			if !bytes.Equal(text[0], text[1]) || !bytes.Equal(canon.MustMarshal(first.Rule), canon.MustMarshal(v.Rule)) {
				return errors.New("catalogue: " + v.Source + " changes the class or its schema, so it is no successor of " + first.Source)
			}
			break
		}
	}
	return nil
}

// classText is a class of a Python source: its line and everything indented below it. The name may have its module in front.
func classText(source []byte, class string) []byte {
	name := []byte(class)
	if i := bytes.LastIndexByte(name, '.'); i >= 0 {
		name = name[i+1:]
	}
	var out []byte
	for line := range bytes.Lines(source) {
		rest, is := bytes.CutPrefix(line, append([]byte("class "), name...))
		switch top := len(bytes.TrimSpace(line)) > 0 && line[0] != ' ' && line[0] != '\t'; {
		case out == nil && is && (rest[0] == '(' || rest[0] == ':'):
			out = bytes.Clone(line)
		case out != nil && top:
			return bytes.TrimRight(out, "\n")
		case out != nil:
			out = append(out, line...)
		}
	}
	return bytes.TrimRight(out, "\n")
}
