package prompt

import (
	"fmt"

	"everloop/domain"
)

// maxPictureBytes bounds the pictures of messages in one prompt, as data URLs. The oldest are
// left out.
const maxPictureBytes = 16 << 20

// Texts that stand for images which are left out.
const (
	refusedByServer = "the model server refused it. Report it to the user if it matters"
	tooManyBytes    = "the prompt has newer ones"
)

// imageName identifies an image of a message: the name of its object, or its address.
func imageName(p domain.ContentPart) string {
	if name, stored := storedPicture(p); stored {
		return name
	}

	return p.ImageURL.URL
}

// HasImages reports whether turns have images, of messages or of results.
func HasImages(turns []domain.TranscriptTurn) bool {
	for _, t := range turns {
		for _, p := range t.Parts {
			if p.ImageURL != nil {
				return true
			}
		}

		for _, call := range t.Calls {
			if len(call.Images) > 0 {
				return true
			}
		}
	}

	return false
}

// ShownImages are the names of the images that a prompt shows, by turn, the oldest first.
func (in Input) ShownImages() [][]string {
	var shown [][]string

	left, results := in.leftOut(), in.ResultImages

	for _, t := range in.Transcript.Turns {
		var names []string

		for _, p := range t.Parts {
			if p.ImageURL != nil && !domain.IsWebAddress(p.ImageURL.URL) && left[imageName(p)] == "" {
				names = append(names, imageName(p))
			}
		}

		for _, call := range t.Calls {
			for _, image := range call.Images {
				if _, ok := results.next(image); ok {
					names = append(names, domain.AttachmentKey(results.sessionID, image.Attachment))
				}
			}
		}

		if names != nil {
			shown = append(shown, names)
		}
	}

	return shown
}

// Without is the input without these images, too, which the model server refused.
func (in Input) Without(images []string) Input {
	refused := make(map[string]bool, len(in.Refused)+len(images))
	for name := range in.Refused {
		refused[name] = true
	}

	for _, name := range images {
		refused[name] = true
	}

	in.Refused, in.ResultImages.refused = refused, refused

	return in
}

// leftOut is why pictures of messages are left out, by their names.
func (in Input) leftOut() map[string]string {
	why := map[string]string{}
	bytes := 0

	for i := len(in.Transcript.Turns) - 1; i >= 0; i-- {
		for _, p := range in.Transcript.Turns[i].Parts {
			if p.ImageURL == nil {
				continue
			}

			name := imageName(p)

			url, stored := in.Pictures[name]
			if !stored {
				url = p.ImageURL.URL
			}

			switch {
			case in.Refused[name]:
				why[name] = refusedByServer
			case bytes+len(url) > maxPictureBytes && bytes > 0:
				why[name] = tooManyBytes
			default:
				bytes += len(url)
			}
		}
	}

	return why
}

// omitted is the text that stands for the n-th picture of a message.
func omitted(n int, why string) domain.ContentPart {
	return domain.ContentPart{Type: "text", Text: fmt.Sprintf("[Image %d of this message is left out: %s.]", n, why)}
}
