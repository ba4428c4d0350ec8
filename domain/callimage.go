package domain

import (
	"regexp"
	"slices"
)

// Bounds of the images of tool results.
const (
	MaxCallImages     = 8         // of one result
	MaxCallImageBytes = 10 << 20  // of one image
	MaxSessionImages  = 512 << 20 // bytes, of all results of a session together
)

// ImageTypes are the image types that models and clients accept.
var ImageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// CallImage is an image in a tool's result. Its bytes are stored as an attachment of the
// session; the name does not contain the session, so that it stays valid in a copy of the
// session.
type CallImage struct {
	Attachment string `json:"attachment" doc:"SHA-256 of the image: its name among the attachments of the session." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
	MimeType   string `json:"mime_type" enum:"image/png,image/jpeg,image/gif,image/webp" doc:"The type, by its content."`
	Bytes      int64  `json:"bytes" minimum:"0" doc:"The size in bytes."`
}

// AttachmentKey returns the object key of an attachment of a session.
func AttachmentKey(sessionID SessionID, name string) string {
	return "images/" + string(sessionID) + "/" + name
}

var attachmentName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// CallImagesUsable reports whether images from outside, such as an archive, are ones that the
// service could have recorded.
func CallImagesUsable(all []CallImage) bool {
	return len(all) <= MaxCallImages && !slices.ContainsFunc(all, func(i CallImage) bool {
		return !attachmentName.MatchString(i.Attachment) || !slices.Contains(ImageTypes, i.MimeType) ||
			i.Bytes < 0 || i.Bytes > MaxCallImageBytes
	})
}
