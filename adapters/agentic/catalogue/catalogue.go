// Package catalogue holds the package catalogue as data: which historical sources, validators, readers, prompts and policy
// epochs are reviewed and registered. README.md beside this file describes the format. Only bytes and their digest live
// here; adapters/agentic loads them strictly. fixtures/record/catalogue.py writes the files.
package catalogue

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
)

//go:embed catalogue.json
var document []byte

//go:embed validators readers runtimes
var files embed.FS

// Bytes returns the catalogue document. The caller must not change it.
func Bytes() []byte { return document }

// Digest is SHA-256 over the catalogue document as stored. Every other file of the catalogue stands in the document by its
// own SHA-256, so this one digest covers them all.
func Digest() [32]byte { return sha256.Sum256(document) }

// File returns a file that the document names, for example "validators/evidence_query.record.jsonl".
func File(name string) ([]byte, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, fmt.Errorf("read catalogue file %s: %w", name, err)
	}
	return data, nil
}
