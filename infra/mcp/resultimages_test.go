package mcp

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
)

// Images are taken by their content, up to a number; the text names all of them.
func TestResultOf_images(t *testing.T) {
	t.Parallel()

	png := []byte("\x89PNG\r\n\x1a\n")
	got := resultOf(&sdk.CallToolResult{Content: []sdk.Content{
		&sdk.TextContent{Text: "see"},
		&sdk.ImageContent{MIMEType: "image/svg+xml", Data: png},
		&sdk.ImageContent{MIMEType: "image/png", Data: []byte("<svg/>")},
	}})
	require.Equal(t, "see\n[image, image/png, 8 bytes]\n"+
		"[image, image/png, 6 bytes, not shown: its content is neither PNG nor JPEG, GIF or WebP]", got.Output)
	require.Equal(t, []tools.Image{{MIME: "image/png", Data: png}}, got.Images)

	var many []sdk.Content
	for range domain.MaxCallImages + 2 {
		many = append(many, &sdk.ImageContent{MIMEType: "image/png", Data: png})
	}

	got = resultOf(&sdk.CallToolResult{Content: many})
	require.Len(t, got.Images, domain.MaxCallImages)
	require.Equal(t, 2, strings.Count(got.Output, "not shown: a result has at most 8]"))
}
