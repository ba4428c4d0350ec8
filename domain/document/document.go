// Package document contains the shared rules of the versioned documents of production
// solutions: one canonical form with a digest, and the difference of two versions. It does not
// depend on the meaning of a document.
package document

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"everloop/domain"
	"everloop/domain/production"
)

// Position is a place on the drawing.
type Position struct {
	X float64 `json:"x" doc:"To the right." example:"120"`
	Y float64 `json:"y" doc:"Downwards." example:"80"`
}

// Viewport is the part of the drawing that is shown.
type Viewport struct {
	X    float64 `json:"x" doc:"To the right." example:"0"`
	Y    float64 `json:"y" doc:"Downwards." example:"0"`
	Zoom float64 `json:"zoom" doc:"1: natural size." example:"1"`
}

// List returns a list that is not nil.
func List[T any](list []T) []T {
	if list == nil {
		return []T{}
	}

	return list
}

// NoEmpty returns nil for an empty list, as in the canonical form.
func NoEmpty[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}

	return list
}

// Encode returns the canonical form of a document: JSON without white space, with the names of
// every object sorted. Equal documents have equal bytes, in every input order of names. It
// rejects documents above MaxDocumentBytes.
func Encode(doc any) ([]byte, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}

	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // numbers keep all their digits

	var free any
	if err := decoder.Decode(&free); err != nil {
		return nil, fmt.Errorf("read encoded document: %w", err)
	}

	if holdsNUL(free) {
		return nil, domain.Newf(domain.Invalid, domain.CodeInvalidRequest, "text must not contain NUL characters")
	}

	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)

	if err := encoder.Encode(free); err != nil {
		return nil, fmt.Errorf("encode canonical document: %w", err)
	}

	canonical := bytes.TrimRight(out.Bytes(), "\n")
	if len(canonical) > production.MaxDocumentBytes {
		return nil, domain.Newf(domain.TooLarge, "document_too_large", "the document has %d bytes; at most %d are possible",
			len(canonical), production.MaxDocumentBytes)
	}

	return canonical, nil
}

// Digest returns the digest of a canonical form: sha256: and its SHA-256 in hexadecimal.
func Digest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func holdsNUL(value any) bool {
	switch value := value.(type) {
	case string:
		return bytes.IndexByte([]byte(value), 0) >= 0
	case []any:
		for _, inner := range value {
			if holdsNUL(inner) {
				return true
			}
		}
	case map[string]any:
		for name, inner := range value {
			if holdsNUL(name) || holdsNUL(inner) {
				return true
			}
		}
	}

	return false
}
