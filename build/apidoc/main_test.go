package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheReferenceIsAsTheHandlersAre(t *testing.T) {
	t.Parallel()
	page, err := reference()
	require.NoError(t, err)
	kept, err := os.ReadFile("../../docs/api.md")
	require.NoError(t, err)
	if string(page) != string(kept) {
		t.Error("docs/api.md is not what the handlers say: run `make generate`")
	}
}
