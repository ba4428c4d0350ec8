package prompt

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// leftOfResults counts how many of these images of results a plan leaves out, all at the
// beginning.
func leftOfResults(t *testing.T, images int, bytes int64) (left int) {
	t.Helper()

	turn := domain.TranscriptTurn{Calls: []domain.ToolCall{{Images: slices.Repeat([]domain.CallImage{{Bytes: bytes}}, images)}}}
	plan := Input{Transcript: domain.Transcript{Turns: []domain.TranscriptTurn{turn}}}.imagePlan()[0].results

	for _, why := range plan {
		if why != "" {
			left++
		}
	}

	require.False(t, slices.Contains(plan[left:], imageOlder), "the oldest are left out")

	return left
}

func TestImagePlan_dropsTheOldestInSteps(t *testing.T) {
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
		"a quarter":       {images: 17, bytes: 3 << 18, left: 4},
		"still a quarter": {images: 20, bytes: 3 << 18, left: 4},
	} {
		require.Equal(t, c.left, leftOfResults(t, c.images, c.bytes), name)
	}
}

// noImages has no objects.
type noImages map[string]string

func (n noImages) DataURL(_ context.Context, object string) (string, error) { return n[object], nil }

// TestBuild_oneBudgetForAllImages holds that pictures of messages and images of results share
// one bound of bytes, and that the newest of both are shown.
func TestBuild_oneBudgetForAllImages(t *testing.T) {
	t.Parallel()

	const each = maxImageBytes / 5

	in := Input{SessionID: "s", Pictures: map[string]string{}}
	objects := noImages{}

	for i := range 4 {
		picture, image := fmt.Sprintf("p%d", i), strings.Repeat(fmt.Sprintf("%02x", i), 32)
		in.Pictures[picture] = "data:image/png;base64," + strings.Repeat(fmt.Sprint(i), each)
		objects[domain.AttachmentKey("s", image)] = "data:image/png;base64," + strings.Repeat("x", each)

		in.Transcript.Turns = append(in.Transcript.Turns,
			domain.TranscriptTurn{Role: domain.RoleUser, Parts: []domain.ContentPart{
				{Type: "image_url", ImageURL: &domain.ImageURL{URL: domain.ObjectScheme + picture}},
			}},
			domain.TranscriptTurn{Role: domain.RoleAssistant, Calls: []domain.ToolCall{
				{ID: picture, ToolName: "Camera", Images: []domain.CallImage{{Attachment: image, Bytes: each * 3 / 4}}},
			}},
		)
	}

	in, err := in.LoadResultImages(t.Context(), objects)
	require.NoError(t, err)

	bytes, shown := 0, 0
	for _, m := range Build(in).Messages {
		for _, p := range m.Parts {
			if p.ImageURL != nil {
				bytes += len(p.ImageURL.URL)
				shown++
			}
		}
	}

	require.LessOrEqual(t, bytes, maxImageBytes)
	require.GreaterOrEqual(t, bytes, maxImageBytes/2)
	require.Len(t, in.ResultImages, shown/2, "what is left out is not loaded")
	require.NotContains(t, in.ShownImages(), []string{"p0"})
	require.Contains(t, in.ShownImages(), []string{"p3"})
	require.Contains(t, fmt.Sprint(Build(in).Messages), "[Image 1 of this message is left out: the prompt has newer ones.]")
	require.Contains(t, fmt.Sprint(Build(in).Messages), "[1 images of the result of Camera left out: the prompt has newer ones]")
}

// TestBuild_pictureSentTwice holds that leaving out the older of two equal pictures does not
// leave out the newer one.
func TestBuild_pictureSentTwice(t *testing.T) {
	t.Parallel()

	in := Input{Pictures: map[string]string{"p": "data:image/png;base64," + strings.Repeat("x", maxImageBytes*2/3)}}
	part := domain.ContentPart{Type: "image_url", ImageURL: &domain.ImageURL{URL: domain.ObjectScheme + "p"}}

	for range 2 {
		in.Transcript.Turns = append(in.Transcript.Turns, domain.TranscriptTurn{Role: domain.RoleUser, Parts: []domain.ContentPart{part}})
	}

	require.Equal(t, [][]string{{"p"}}, in.ShownImages())
}

func TestInput_resultImages(t *testing.T) {
	t.Parallel()

	image := domain.CallImage{Attachment: strings.Repeat("0a", 32), MimeType: "image/png", Bytes: 5}
	turn := domain.TranscriptTurn{Calls: []domain.ToolCall{{ToolName: "plain"}, {ToolName: "shot", Images: []domain.CallImage{image}}}}
	name, url := domain.AttachmentKey("s", image.Attachment), "data:image/png;base64,AAAA"
	in := Input{SessionID: "s", ResultImages: ResultImages{name: url}}

	require.Empty(t, in.resultImages(domain.TranscriptTurn{Calls: turn.Calls[:1]}, nil))

	shown := in.resultImages(turn, []omission{""})
	require.Len(t, shown, 1)
	require.Equal(t, "user", shown[0].Role)
	require.Equal(t, url, shown[0].Parts[2].ImageURL.URL)

	recording := ResultImages{name: "data:audio/wav;base64,AAAA"}

	for text, c := range map[string]struct {
		why    omission
		images ResultImages
	}{
		"takes no images":           {imageUnseen, in.ResultImages},
		"newer ones":                {imageOlder, in.ResultImages},
		"the model server refused":  {imageRefused, in.ResultImages},
		"they are not kept any":     {"", ResultImages{}},
		"left out: they are not ke": {"", recording},
	} {
		in.ResultImages = c.images
		message := in.resultImages(turn, []omission{c.why})
		require.Len(t, message, 1, text)
		require.Contains(t, message[0].Parts[1].Text, text)
		require.False(t, slices.ContainsFunc(message[0].Parts, func(p domain.ContentPart) bool { return p.ImageURL != nil }), text)
	}
}

func TestResultImagesLeftOut(t *testing.T) {
	t.Parallel()

	turns := []domain.TranscriptTurn{
		{Calls: []domain.ToolCall{{Images: make([]domain.CallImage, maxResultImages)}}},
		{Calls: []domain.ToolCall{{Images: make([]domain.CallImage, 1)}}},
	}
	require.Equal(t, []int{imagesDropped, 0}, ResultImagesLeftOut(domain.Model{}, turns), "not known: it is tried")
	require.Equal(t, []int{imagesDropped, 0}, ResultImagesLeftOut(domain.Model{Modalities: []string{"text", "image"}}, turns))
	require.Equal(t, []int{maxResultImages, 1}, ResultImagesLeftOut(domain.Model{Modalities: []string{"text"}}, turns))

	sized := TurnTokens{Said: 5, Files: 3 * imageTokens, Images: 3}.Without(2)
	require.Equal(t, TurnTokens{Said: 5, Files: imageTokens, Images: 1}, sized)
}
