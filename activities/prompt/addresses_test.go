package prompt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// Messages of earlier versions have addresses; the model server is not made to fetch them.
func TestWithPictures_passesNoAddressOn(t *testing.T) {
	t.Parallel()

	for _, address := range []string{"http://169.254.169.254/latest/", "HTTPS://example.org/a.png"} {
		parts := withPictures([]domain.ContentPart{{Type: "image_url", ImageURL: &domain.ImageURL{URL: address}}}, nil, make([]omission, 1))
		require.Nil(t, parts[0].ImageURL)
		require.Contains(t, parts[0].Text, address)
	}
}
