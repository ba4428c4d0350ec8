package prompt

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestLeftOut_dropsTheOldestInSteps(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		images int
		bytes  int64
		left   int
	}{
		"none":            {},
		"all fit":         {images: maxResultImages, bytes: 1},
		"one too many":    {images: maxResultImages + 1, bytes: 1, left: imagesDropped},
		"the same prefix": {images: maxResultImages + imagesDropped, bytes: 1, left: imagesDropped},
		"next step":       {images: maxResultImages + imagesDropped + 1, bytes: 1, left: 2 * imagesDropped},
		"too many bytes":  {images: 10, bytes: domain.MaxCallImageBytes, left: 9},
	} {
		require.Equal(t, c.left, leftOut(slices.Repeat([]domain.CallImage{{Bytes: c.bytes}}, c.images)), name)
	}
}

func TestResultImages_of(t *testing.T) {
	t.Parallel()

	image := domain.CallImage{Attachment: strings.Repeat("0a", 32), MimeType: "image/png", Bytes: 5}
	turn := domain.TranscriptTurn{Calls: []domain.ToolCall{{ToolName: "plain"}, {ToolName: "shot", Images: []domain.CallImage{image}}}}
	url := "data:image/png;base64,AAAA"
	urls := map[string]string{domain.AttachmentKey("s", image.Attachment): url}

	require.Empty(t, (&ResultImages{sessionID: "s", urls: urls}).of(domain.TranscriptTurn{Calls: turn.Calls[:1]}))

	shown := (&ResultImages{sessionID: "s", urls: urls}).of(turn)
	require.Len(t, shown, 1)
	require.Equal(t, "user", shown[0].Role)
	require.Equal(t, url, shown[0].Parts[2].ImageURL.URL)

	for why, c := range map[string]*ResultImages{
		"takes no images": {sessionID: "s", blind: true},
		"newer ones":      {sessionID: "s", urls: urls, left: 1},
		"not kept":        {sessionID: "other", urls: urls},
		"or they are": {
			sessionID: "s",
			urls:      map[string]string{domain.AttachmentKey("s", image.Attachment): "data:audio/wav;base64,AAAA"},
		},
	} {
		message := c.of(turn)
		require.Len(t, message, 1, why)
		require.Contains(t, message[0].Parts[1].Text, why)
		require.False(t, slices.ContainsFunc(message[0].Parts, func(p domain.ContentPart) bool { return p.ImageURL != nil }), why)
	}
}

func TestImagesLeftOut(t *testing.T) {
	t.Parallel()

	turns := []domain.TranscriptTurn{
		{Calls: []domain.ToolCall{{Images: make([]domain.CallImage, maxResultImages)}, {Images: make([]domain.CallImage, 1)}}},
	}
	require.Equal(t, imagesDropped, ImagesLeftOut(domain.Model{}, turns), "not known: it is tried")
	require.Equal(t, imagesDropped, ImagesLeftOut(domain.Model{Modalities: []string{"text", "image"}}, turns))
	require.Equal(t, maxResultImages+1, ImagesLeftOut(domain.Model{Modalities: []string{"text"}}, turns))

	sized := TurnTokens{Said: 5, Files: 3 * imageTokens, Images: 3}.Without(2)
	require.Equal(t, TurnTokens{Said: 5, Files: imageTokens, Images: 1}, sized)
}
