package activities

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
)

// cabinet counts the images that it keeps; err: it keeps none.
type cabinet struct {
	Ledger
	held int64
	err  error
	kept int
}

func (c *cabinet) ImageBytes(context.Context, domain.SessionID) (int64, error) { return c.held, nil }

func (c *cabinet) KeepImage(_ context.Context, sessionID domain.SessionID, mime string, data []byte) (domain.CallImage, error) {
	if c.err != nil {
		return domain.CallImage{}, c.err
	}

	c.kept++

	return domain.CallImage{Attachment: string(sessionID), MimeType: mime, Bytes: int64(len(data))}, nil
}

func TestActivities_keepImages_bounds(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		images, kept int
		held         int64
		err          error
		result       string
	}{
		"none":     {result: "r"},
		"some":     {images: 2, kept: 2, result: "r"},
		"too many": {images: domain.MaxCallImages + 1, kept: domain.MaxCallImages, result: "r"},
		"session filled": {
			images: 3, kept: 1, held: domain.MaxSessionImages - 5,
			result: "r\n[2 images left out: the images of this session's results have reached 512 MiB]",
		},
		"store is away": {images: 2, err: errors.New("away"), result: "r\n[2 images left out: they could not be kept]"},
	} {
		store := &cabinet{held: c.held, err: c.err}
		a := &Activities{Ledger: store, ResultImages: store, Logger: slog.New(slog.DiscardHandler)}
		done := domain.FinishedCall{Result: "r"}

		images := make([]tools.Image, c.images)
		for i := range images {
			images[i] = tools.Image{MIME: "image/png", Data: []byte("12345")}
		}

		a.keepImages(t.Context(), domain.LedgerCall{SessionID: "s"}, &done, images)
		require.Equal(t, c.result, done.Result, name)
		require.Len(t, done.Images, c.kept, name)
		require.Equal(t, c.kept, store.kept, name)
	}
}
