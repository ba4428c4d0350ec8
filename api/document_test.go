package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/api"
)

// What `everloop openapi` prints is what a service serves.
func TestDocument_withoutService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	document, err := api.Document("2026.11.21")
	require.NoError(t, err)
	require.JSONEq(t, w.do("GET", "/api/openapi.json", "", "").text, string(document))
}
