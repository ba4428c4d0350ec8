package prompt

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"everloop/domain"
)

// Bounds of the images of one prompt. The oldest are left out, several at once, so that the
// beginning of the prompt stays the same for some calls.
const (
	// maxImageBytes bounds the images of messages and of tool results together, as data URLs:
	// model servers that bound requests take 20 MB and more.
	maxImageBytes     = 16 << 20
	imageBytesDropped = maxImageBytes / 4 // at once

	maxResultImages = 24
	imagesDropped   = 8 // at once
)

// omission is why an image is left out of a prompt; empty: it is shown.
type omission string

const (
	imageRefused omission = "refused" // by the model server
	imageOlder   omission = "older"   // than those that the prompt has
	imageUnseen  omission = "unseen"  // the model takes no images
	imageLost    omission = "lost"    // its object does not exist
)

// turnImages are the images of a turn's message and of its results, in their order.
type turnImages struct{ message, results []omission }

// plannedImage is an image that the prompt can show.
type plannedImage struct {
	list  []omission
	index int
	bytes int
}

func (p plannedImage) leaveOut(why omission) { p.list[p.index] = why }

// imagePlan decides for each turn which of its images the prompt shows.
func (in Input) imagePlan() []turnImages {
	plan := make([]turnImages, len(in.Transcript.Turns))

	var shown, results []plannedImage

	for i, t := range in.Transcript.Turns {
		for _, p := range t.Parts {
			if p.ImageURL != nil {
				plan[i].message = append(plan[i].message, in.refusal(imageName(p)))
			}
		}

		for _, image := range callImages(t) {
			plan[i].results = append(plan[i].results, in.refusal(in.resultName(image)))
		}

		shown = append(shown, in.messageImages(t, plan[i].message)...)

		of := in.shownResults(t, plan[i].results)
		shown, results = append(shown, of...), append(results, of...)
	}

	keepNewestResults(results)
	keepNewest(shown)

	return plan
}

func (in Input) refusal(name string) omission {
	if in.Refused[name] {
		return imageRefused
	}

	return ""
}

// messageImages returns the images of a message that the server has not refused. Older
// messages have addresses, which are sent as text.
func (in Input) messageImages(t domain.TranscriptTurn, list []omission) (shown []plannedImage) {
	n := -1

	for _, p := range t.Parts {
		if p.ImageURL == nil {
			continue
		}

		if n++; list[n] != "" || domain.IsWebAddress(p.ImageURL.URL) {
			continue
		}

		url, stored := in.Pictures[imageName(p)]
		if !stored {
			url = p.ImageURL.URL
		}

		shown = append(shown, plannedImage{list, n, len(url)})
	}

	return shown
}

// shownResults returns the images of a turn's results that the server has not refused.
func (in Input) shownResults(t domain.TranscriptTurn, list []omission) (shown []plannedImage) {
	for n, image := range callImages(t) {
		switch {
		case !in.Model.TakesImages():
			list[n] = imageUnseen
		case list[n] == "":
			shown = append(shown, plannedImage{list, n, base64.StdEncoding.EncodedLen(int(image.Bytes))})
		}
	}

	return shown
}

// keepNewestResults leaves out the oldest of too many images of results.
func keepNewestResults(results []plannedImage) {
	excess := len(results) - maxResultImages
	if excess <= 0 {
		return
	}

	steps := (excess + imagesDropped - 1) / imagesDropped
	for _, image := range results[:steps*imagesDropped] {
		image.leaveOut(imageOlder)
	}
}

// keepNewest leaves out the oldest images whose bytes are too many for one prompt, but not
// the newest image.
func keepNewest(images []plannedImage) {
	excess := -maxImageBytes

	for _, image := range images {
		if image.list[image.index] == "" {
			excess += image.bytes
		}
	}

	if excess <= 0 {
		return
	}

	due := (excess + imageBytesDropped - 1) / imageBytesDropped * imageBytesDropped

	for _, image := range images[:len(images)-1] {
		if due <= 0 {
			return
		}

		if image.list[image.index] == "" {
			image.leaveOut(imageOlder)

			due -= image.bytes
		}
	}
}

// callImages returns the images of a turn's results.
func callImages(t domain.TranscriptTurn) (all []domain.CallImage) {
	for _, call := range t.Calls {
		all = append(all, call.Images...)
	}

	return all
}

func (in Input) resultName(image domain.CallImage) string {
	return domain.AttachmentKey(in.SessionID, image.Attachment)
}

// imageName identifies an image of a message: the name of its object, or a digest of its
// address, which can be a data URL.
func imageName(p domain.ContentPart) string {
	if name, stored := storedPicture(p); stored {
		return name
	}

	sum := sha256.Sum256([]byte(p.ImageURL.URL))

	return "sha256:" + hex.EncodeToString(sum[:])
}

// HasImages reports whether turns have images, of messages or of results.
func HasImages(turns []domain.TranscriptTurn) bool {
	for _, t := range turns {
		if len(callImages(t)) > 0 {
			return true
		}

		for _, p := range t.Parts {
			if p.ImageURL != nil {
				return true
			}
		}
	}

	return false
}

// ShownImages returns the names of the images that a prompt shows, by turn, the oldest first.
func (in Input) ShownImages() [][]string {
	var shown [][]string

	for i, images := range in.imagePlan() {
		var names []string

		t, n := in.Transcript.Turns[i], -1

		for _, p := range t.Parts {
			if p.ImageURL == nil {
				continue
			}

			if n++; images.message[n] == "" && !domain.IsWebAddress(p.ImageURL.URL) {
				names = append(names, imageName(p))
			}
		}

		for n, image := range callImages(t) {
			if images.results[n] == "" && in.ResultImages.has(in.resultName(image)) {
				names = append(names, in.resultName(image))
			}
		}

		if names != nil {
			shown = append(shown, names)
		}
	}

	return shown
}

// Without returns the input without these images, too, which the model server refused.
func (in Input) Without(images []string) Input {
	refused := make(map[string]bool, len(in.Refused)+len(images))
	for name := range in.Refused {
		refused[name] = true
	}

	for _, name := range images {
		refused[name] = true
	}

	in.Refused = refused

	return in
}

// omitted returns the text that stands for the n-th picture of a message.
func omitted(n int, why omission) domain.ContentPart {
	reason := "the prompt has newer ones"
	if why == imageRefused {
		reason = "the model server refused it. Report it to the user if it matters"
	}

	return domain.ContentPart{Type: "text", Text: fmt.Sprintf("[Image %d of this message is left out: %s.]", n, reason)}
}
