package tools_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
)

func TestNewImage(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ data, mime, problem string }{
		"png":  {data: "\x89PNG\r\n\x1a\n…", mime: "image/png"},
		"jpeg": {data: "\xff\xd8\xff\xe0", mime: "image/jpeg"},
		"gif":  {data: "GIF89a", mime: "image/gif"},
		"webp": {data: "RIFF\x04\x00\x00\x00WEBPVP8 ", mime: "image/webp"},
		"svg":  {data: `<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>`, problem: "neither PNG"},
		"text": {data: "12345", problem: "neither PNG"},
		"none": {problem: "neither PNG"},
		"large": {
			data: "\x89PNG\r\n\x1a\n" + string(make([]byte, domain.MaxCallImageBytes)), problem: "larger than 10 MiB",
		},
	} {
		image, problem := tools.NewImage([]byte(c.data))
		require.Equal(t, c.mime, image.MIME, name)

		if c.problem == "" {
			require.Empty(t, problem, name)
			require.Equal(t, c.data, string(image.Data), name)
		} else {
			require.Contains(t, problem, c.problem, name)
			require.Empty(t, image.Data, name)
		}
	}
}
