package chatrequest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"everloop/domain"
	"everloop/domain/speech"
)

const (
	maxParts = 1000

	partText  = "text"
	partImage = "image_url"
	partAudio = "audio_url"
	partInput = "input_audio"
)

// Content is a message as clients send it: a string, or an array of [TextPart],
// [ImagePart], [AudioPart] and [InputAudioPart]. It is nil when all of it is blank.
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

// ImageAddress is the address of an image.
type ImageAddress struct {
	URL string `json:"url" required:"true" minLength:"1" doc:"An http or https address, a data URL with base64 content, or the path of an attachment of this session." example:"https://example.org/chart.png"`
}

// AudioPart is a recording of a message, which the speech model transcribes.
type AudioPart struct {
	Type     string       `json:"type" required:"true" enum:"audio_url" doc:"The type of the part."`
	AudioURL AudioAddress `json:"audio_url" required:"true" doc:"The recording."`
}

// AudioAddress is the address of a recording.
type AudioAddress struct {
	URL string `json:"url" required:"true" minLength:"1" doc:"A data URL with base64 content, or the path of an attachment of this session." example:"data:audio/wav;base64,UklGRg=="`
}

// InputAudioPart is a recording in the format of chat-completions servers.
type InputAudioPart struct {
	Type       string     `json:"type" required:"true" enum:"input_audio" doc:"The type of the part."`
	InputAudio InputAudio `json:"input_audio" required:"true" doc:"The recording."`
}

// InputAudio is the content of a recording.
type InputAudio struct {
	Data   string `json:"data" required:"true" minLength:"1" doc:"The file in base64." example:"UklGRg=="`
	Format string `json:"format" required:"true" minLength:"1" maxLength:"20" doc:"The name of its format. What counts is the content." example:"wav"`
}

// Schema implements huma.SchemaProvider.
func (Content) Schema(r huma.Registry) *huma.Schema {
	part := func(t reflect.Type) *huma.Schema { return r.Schema(t, true, t.Name()) }
	most := maxParts

	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeString},
		{
			Type: huma.TypeArray, MaxItems: &most,
			Items: &huma.Schema{OneOf: []*huma.Schema{
				part(reflect.TypeFor[TextPart]()), part(reflect.TypeFor[ImagePart]()), part(reflect.TypeFor[AudioPart]()),
				part(reflect.TypeFor[InputAudioPart]()),
			}},
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

		if recordings := countRecordings(parts); recordings > speech.MaxRecordings {
			return domain.Invalidf(at, "must have at most %d recordings", speech.MaxRecordings)
		}

		c.set(parts)

		return nil
	default:
		return domain.Invalidf(at, "must be a string or an array of parts")
	}
}

// set stores the parts if at least one of them has content.
func (c *Content) set(parts []domain.ContentPart) {
	for i := range parts {
		parts[i].Text = domain.CleanText(parts[i].Text)
	}

	if slices.ContainsFunc(parts, said) {
		*c = parts
	}
}

func countRecordings(parts []domain.ContentPart) (n int) {
	for _, p := range parts {
		if p.AudioURL != nil {
			n++
		}
	}

	return n
}

// readPart parses a part by its type; fields of other types are ignored.
func readPart(at string, raw json.RawMessage) (domain.ContentPart, error) {
	var kind struct {
		Type string `json:"type" required:"true" enum:"text,image_url,audio_url,input_audio"`
	}
	if err := decode(at, raw, &kind); err != nil {
		return domain.ContentPart{}, err
	}

	switch kind.Type {
	case partImage:
		return readImage(at, raw)
	case partAudio:
		return readAudio(at, raw)
	case partInput:
		return readInputAudio(at, raw)
	}

	var part TextPart

	err := decode(at, raw, &part)

	return domain.ContentPart{Type: partText, Text: part.Text}, err
}

func readImage(at string, raw json.RawMessage) (domain.ContentPart, error) {
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

// readAudio rejects addresses of other servers: the service does not fetch recordings.
func readAudio(at string, raw json.RawMessage) (domain.ContentPart, error) {
	var part AudioPart
	if err := decode(at, raw, &part); err != nil {
		return domain.ContentPart{}, err
	}

	url := part.AudioURL.URL
	if _, _, attached := domain.ParseAttachmentPath(url); !attached && !isDataURL(url) {
		return domain.ContentPart{}, domain.Invalidf(at+".audio_url.url",
			"must be a data URL with base64 content, or the path of an attachment of this session")
	}

	return domain.ContentPart{Type: partAudio, AudioURL: &domain.AudioURL{URL: url}}, nil
}

// readInputAudio parses a recording like readAudio.
func readInputAudio(at string, raw json.RawMessage) (domain.ContentPart, error) {
	var part InputAudioPart
	if err := decode(at, raw, &part); err != nil {
		return domain.ContentPart{}, err
	}

	return domain.ContentPart{Type: partAudio, AudioURL: &domain.AudioURL{URL: "data:;base64," + part.InputAudio.Data}}, nil
}

// isImageURL checks only the form; the content is checked before it is stored.
func isImageURL(url string) bool {
	if _, _, ok := domain.ParseAttachmentPath(url); ok {
		return true
	}

	return domain.IsWebAddress(url) || isDataURL(url)
}

func isDataURL(url string) bool {
	head, data, ok := strings.Cut(url, ",")
	if !ok || len(head) < len("data:") || !strings.EqualFold(head[:len("data:")], "data:") {
		return false
	}

	return data != "" && strings.HasSuffix(strings.ToLower(head), ";base64")
}
