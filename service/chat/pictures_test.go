package chat

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// album keeps pictures by their data, and fetches none but one.
type album struct{ Images }

const (
	fetchable = "https://example.org/a.png"
	fetched   = "data:image/png;base64,iVBORw0KGgo="
)

func (album) Keep(_ context.Context, _ domain.SessionID, dataURL string) (string, error) {
	if domain.IsWebAddress(dataURL) {
		return "", domain.Invalidf("body.message.image_url", "it is not a data URL")
	}

	return domain.ObjectScheme + dataURL, nil
}

func (album) Picture(_ context.Context, _ domain.SessionID, address string) (string, error) {
	if address == fetchable {
		return fetched, nil
	}

	return "", &domain.Error{Kind: domain.Invalid, Code: "picture_refused", Message: "not public"}
}

func TestService_Send_fetchesPictures(t *testing.T) {
	t.Parallel()

	parts := func(url string) []domain.ContentPart {
		return []domain.ContentPart{{Type: "image_url", ImageURL: &domain.ImageURL{URL: url}}}
	}
	s := &Service{Config{Images: album{}, Pictures: album{}}}

	kept, err := s.keep(t.Context(), "s", parts(fetchable))
	require.NoError(t, err)
	require.Equal(t, domain.ObjectScheme+fetched, kept[0].ImageURL.URL, "the data is stored, not the address")

	_, err = s.keep(t.Context(), "s", parts("HTTP://169.254.169.254/latest/"))
	require.Equal(t, "picture_refused", domain.AsError(err).Code)

	s.cfg.Pictures = nil
	_, err = s.keep(t.Context(), "s", parts(fetchable))
	require.Error(t, err)
}
