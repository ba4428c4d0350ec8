package toolrun

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
)

func TestKeepWithin_bounds(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		images, kept int
		held         int64
		err          error
		result       string
	}{
		"none": {result: "r"},
		"some": {images: 2, kept: 2, result: "r"},
		"session filled": {
			images: 3, kept: 1, held: domain.MaxSessionImages - 5,
			result: "r\n[2 images left out: the images of this session's results have reached 512 MiB]",
		},
		"store unavailable": {images: 2, err: errors.New("unavailable"), result: "r"},
	} {
		done := domain.FinishedCall{Result: "r"}

		images := make([]tools.Image, c.images)
		for i := range images {
			images[i] = tools.Image{MIME: "image/png", Data: []byte("12345")}
		}

		err := keepWithin(c.held, &done, images, func(image tools.Image) (domain.CallImage, error) {
			return domain.CallImage{MimeType: image.MIME}, c.err
		})
		require.Equal(t, c.err, err, name)
		require.Equal(t, c.result, done.Result, name)
		require.Len(t, done.Images, c.kept, name)
	}
}
