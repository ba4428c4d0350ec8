package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"everloop/activities/tools"
	"everloop/domain"
)

// maxResultText is the maximum text of one result, in bytes. The model receives less; the rest is
// saved to a file.
const maxResultText = 8 << 20

// resultOf converts a server's answer to text and images. Other content is only named, because
// the model cannot read it.
func resultOf(answer *sdk.CallToolResult) tools.Result {
	var (
		b      strings.Builder
		images []tools.Image
		text   bool
	)

	for _, content := range answer.Content {
		part, isText := words(content)
		if shown, ok := content.(*sdk.ImageContent); ok {
			part = picture(shown, &images)
		}

		text = text || isText

		if part == "" {
			continue
		}

		if b.Len() > 0 {
			b.WriteByte('\n')
		}

		if room := maxResultText - b.Len(); len(part) > room {
			b.WriteString(part[:max(room, 0)])
			b.WriteString("\n[… the result is longer than 8 MiB; the rest is left out …]")

			break
		}

		b.WriteString(part)
	}

	if answer.StructuredContent != nil && !text {
		if data, err := json.Marshal(answer.StructuredContent); err == nil {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}

			b.Write(data[:min(len(data), maxResultText)])
		}
	}

	if b.Len() == 0 {
		b.WriteString("(The tool gave no content.)")
	}

	return tools.Result{Output: b.String(), IsError: answer.IsError, Images: images}
}

// words returns a content as text, and whether it was text.
func words(content sdk.Content) (text string, isText bool) {
	switch c := content.(type) {
	case *sdk.TextContent:
		return c.Text, true
	case *sdk.AudioContent:
		return unseen("audio", c.MIMEType, len(c.Data)), false
	case *sdk.ResourceLink:
		about := "[resource " + cleanText(oneLine(c.URI), 1000)
		for _, more := range []string{c.Name, c.MIMEType, c.Description} {
			if more = cleanText(oneLine(more), maxWords); more != "" {
				about += ", " + more
			}
		}

		return about + "]", false
	case *sdk.EmbeddedResource:
		r := c.Resource
		switch {
		case r == nil:
			return "", false
		case len(r.Blob) > 0:
			return "[resource " + cleanText(oneLine(r.URI), 1000) + "] " + unseen("file", r.MIMEType, len(r.Blob)), false
		default:
			return "[resource " + cleanText(oneLine(r.URI), 1000) + "]\n" + r.Text, true
		}
	default:
		return "[content of a kind that is not shown]", false
	}
}

// picture adds an image to the result's images, and returns its description for the text.
func picture(c *sdk.ImageContent, images *[]tools.Image) string {
	image, problem := tools.NewImage(c.Data)

	switch {
	case problem == "" && len(*images) == domain.MaxCallImages:
		problem = fmt.Sprintf("a result has at most %d", domain.MaxCallImages)
	case problem == "":
		*images = append(*images, image)
		return fmt.Sprintf("[image, %s, %d bytes]", image.MIME, len(image.Data))
	}

	return strings.TrimSuffix(unseen("image", c.MIMEType, len(c.Data)), "]") + ": " + problem + "]"
}

func unseen(what, mediaType string, size int) string {
	return fmt.Sprintf("[%s, %s, %d bytes, not shown]", what, cleanText(oneLine(mediaType), 100), size)
}
