package domain_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestCallImagesUsable(t *testing.T) {
	t.Parallel()

	good := domain.CallImage{Attachment: strings.Repeat("0a", 32), MimeType: "image/png", Bytes: 5}

	require.True(t, domain.CallImagesUsable(nil))
	require.True(t, domain.CallImagesUsable(slices.Repeat([]domain.CallImage{good}, domain.MaxCallImages)))
	require.False(t, domain.CallImagesUsable(slices.Repeat([]domain.CallImage{good}, domain.MaxCallImages+1)))

	for name, change := range map[string]func(*domain.CallImage){
		"another session's":  func(i *domain.CallImage) { i.Attachment = "../other/" + i.Attachment[9:] },
		"name too short":     func(i *domain.CallImage) { i.Attachment = i.Attachment[1:] },
		"type with a script": func(i *domain.CallImage) { i.MimeType = "image/svg+xml" },
		"negative size":      func(i *domain.CallImage) { i.Bytes = -1 },
		"too large":          func(i *domain.CallImage) { i.Bytes = domain.MaxCallImageBytes + 1 },
	} {
		bad := good
		change(&bad)
		require.False(t, domain.CallImagesUsable([]domain.CallImage{good, bad}), name)
	}
}
