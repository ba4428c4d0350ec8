package tools

import (
	"fmt"
	"net/http"
	"slices"

	"everloop/domain"
)

// Image is an image of a result, before it is kept.
type Image struct {
	MIME string
	Data []byte
}

// NewImage returns a new image of bytes from outside. Their type is found by their content. A
// problem says why they are not taken.
func NewImage(data []byte) (image Image, problem string) {
	mime := http.DetectContentType(data)

	switch {
	case !slices.Contains(domain.ImageTypes, mime):
		return Image{}, "its content is neither PNG nor JPEG, GIF or WebP"
	case len(data) > domain.MaxCallImageBytes:
		return Image{}, fmt.Sprintf("it is larger than %d MiB", domain.MaxCallImageBytes>>20)
	}

	return Image{MIME: mime, Data: data}, ""
}
