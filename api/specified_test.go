package api_test

import (
	_ "embed"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// specified.txt is every operation that the specification names, one a line. It is
// written by make specified, and internal/specified holds it to the specification.
//
//go:embed testdata/specified.txt
var specified string

// TestSpecifiedOperations holds the document to the specification: what it names
// is there.
func TestSpecifiedOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	require.NoError(t, json.Unmarshal([]byte(w.do("GET", "/api/openapi.json", "", "").text), &doc))

	documented := map[string]bool{}

	for path, item := range doc.Paths {
		for method := range item {
			documented[strings.ToUpper(method)+" "+path] = true
		}
	}

	var missing []string

	for operation := range strings.Lines(specified) {
		if operation = strings.TrimSpace(operation); !documented[operation] {
			missing = append(missing, operation)
		}
	}

	require.Empty(t, missing)
}
