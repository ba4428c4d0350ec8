package chatrequest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"everloop/domain"
)

const (
	maxParts = 1000

	partText  = "text"
	partImage = "image_url"
)

// Content is a message as clients send it: a string, or an array of [TextPart] and
// [ImagePart]. It is nil when all of it is blank.
type Content []domain.ContentPart

// TextPart is a text of a message.
type TextPart struct {
	Type string `json:"type" required:"true" enum:"text" doc:"The type of the part."`
	Text string `json:"text" required:"true" doc:"The text." example:"What does this picture show?"`
}

// ImagePart is an image of a message.
type ImagePart struct {
	Type     string       `json:"type" required:"true" enum:"image_url" doc:"The type of the part."`
	ImageURL ImageAddress `json:"image_url" required:"true" doc:"The image."`
}

// ImageAddress is the place of an image.
type ImageAddress struct {
	URL string `json:"url" required:"true" minLength:"1" doc:"An http or https address, a data URL with base64 content, or the path of an attachment of this session." example:"https://example.org/chart.png"`
}

// Schema implements huma.SchemaProvider.
func (Content) Schema(r huma.Registry) *huma.Schema {
	part := func(t reflect.Type) *huma.Schema { return r.Schema(t, true, t.Name()) }
	most := maxParts

	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeString},
		{
			Type: huma.TypeArray, MaxItems: &most,
			Items: &huma.Schema{OneOf: []*huma.Schema{part(reflect.TypeFor[TextPart]()), part(reflect.TypeFor[ImagePart]())}},
		},
		{Type: "null"},
	}}
}

// read implements reader.
func (c *Content) read(at string, raw json.RawMessage) error {
	switch raw[0] {
	case '"':
		part := domain.ContentPart{Type: partText}
		if err := json.Unmarshal(raw, &part.Text); err != nil {
			return domain.Invalidf(at, "must be a string")
		}

		c.set([]domain.ContentPart{part})

		return nil
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return domain.Invalidf(at, "must be a string or an array of parts")
		}

		if len(list) > maxParts {
			return domain.Invalidf(at, "must have at most %d parts", maxParts)
		}

		parts := make([]domain.ContentPart, len(list))
		for i, raw := range list {
			var err error
			if parts[i], err = readPart(fmt.Sprintf("%s[%d]", at, i), raw); err != nil {
				return err
			}
		}

		c.set(parts)

		return nil
	default:
		return domain.Invalidf(at, "must be a string or an array of parts")
	}
}

// set keeps the parts when one of them has content.
func (c *Content) set(parts []domain.ContentPart) {
	for i := range parts {
		parts[i].Text = domain.CleanText(parts[i].Text)
	}

	if slices.ContainsFunc(parts, said) {
		*c = parts
	}
}

// readPart reads a part by its type; the fields of the other type are ignored.
func readPart(at string, raw json.RawMessage) (domain.ContentPart, error) {
	var kind struct {
		Type string `json:"type" required:"true" enum:"text,image_url"`
	}
	if err := decode(at, raw, &kind); err != nil {
		return domain.ContentPart{}, err
	}

	if kind.Type == partText {
		var part TextPart

		err := decode(at, raw, &part)

		return domain.ContentPart{Type: partText, Text: part.Text}, err
	}

	var part ImagePart
	if err := decode(at, raw, &part); err != nil {
		return domain.ContentPart{}, err
	}

	if !isImageURL(part.ImageURL.URL) {
		return domain.ContentPart{}, domain.Invalidf(at+".image_url.url",
			"must be an http or https address, a data URL with base64 content, or the path of an attachment of this session")
	}

	return domain.ContentPart{Type: partImage, ImageURL: &domain.ImageURL{URL: part.ImageURL.URL}}, nil
}

// isImageURL checks the form only; the content is checked where it is stored.
func isImageURL(url string) bool {
	if _, _, ok := domain.ParseAttachmentPath(url); ok {
		return true
	}

	if scheme, rest, ok := strings.Cut(url, "://"); ok && rest != "" {
		return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
	}

	head, data, ok := strings.Cut(url, ",")
	if !ok || len(head) < len("data:") || !strings.EqualFold(head[:len("data:")], "data:") {
		return false
	}

	return data != "" && strings.HasSuffix(strings.ToLower(head), ";base64")
}
