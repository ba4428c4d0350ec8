package domain

import "strings"

// AudioURL is a recording in a message, stored as an object. The text of its part is the
// transcript, once there is one.
type AudioURL struct {
	URL    string      `json:"url"`
	Status AudioStatus `json:"status,omitempty"`
}

// AudioStatus is the state of a transcription; empty: pending.
type AudioStatus string

// The final states of a transcription.
const (
	AudioTranscribed AudioStatus = "transcribed"
	AudioFailed      AudioStatus = "failed" // the speech model rejected the recording
)

// Untranscribed reports whether the part is a recording that is not transcribed yet.
func (p ContentPart) Untranscribed() bool { return p.AudioURL != nil && p.AudioURL.Status == "" }

// Heard returns the text that the model reads for a recording.
func (p ContentPart) Heard() string {
	switch {
	case p.AudioURL.Status == AudioFailed:
		return "[A recording that could not be transcribed.]"
	case p.Untranscribed():
		return "[A recording.]"
	case strings.TrimSpace(p.Text) == "":
		return "[A recording without speech.]"
	}

	return p.Text
}

// Attachment returns the URL of the part's image or recording; empty: it has none.
func (p ContentPart) Attachment() string {
	switch {
	case p.ImageURL != nil:
		return p.ImageURL.URL
	case p.AudioURL != nil:
		return p.AudioURL.URL
	}

	return ""
}

// WithAttachment returns the part with the URL of its image or recording replaced.
func (p ContentPart) WithAttachment(url string) ContentPart {
	switch {
	case p.ImageURL != nil:
		p.ImageURL = &ImageURL{URL: url}
	case p.AudioURL != nil:
		p.AudioURL = &AudioURL{URL: url, Status: p.AudioURL.Status}
	}

	return p
}
