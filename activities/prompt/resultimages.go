package prompt

import (
	"context"
	"fmt"
	"strings"

	"everloop/domain"
)

// Bounds of the images of results in one prompt. The oldest are left out, several at once,
// so that the prompt's beginning stays the same for some calls.
const (
	maxResultImages     = 24
	maxResultImageBytes = 16 << 20
	imagesDropped       = 8 // at once
)

// ResultImages are the images of tool results that a prompt shows.
type ResultImages struct {
	sessionID domain.SessionID
	urls      map[string]string // data URLs by the name of their object; without those left out
	blind     bool              // the model takes no images
	refused   map[string]bool   // by the model server
	left      int               // how many of the oldest images are left out
}

// NoResultImages shows none, as to a model that takes no images.
var NoResultImages = ResultImages{blind: true}

// Shown reports whether the prompt shows any.
func (r ResultImages) Shown() bool { return len(r.urls) > 0 }

// LoadResultImages loads the images of results that the next prompt shows to the model.
func LoadResultImages(
	ctx context.Context, images Images, sessionID domain.SessionID, model domain.Model, turns []domain.TranscriptTurn,
) (ResultImages, error) {
	if !model.TakesImages() {
		return NoResultImages, nil
	}

	all := resultImages(turns)

	r := ResultImages{sessionID: sessionID, urls: map[string]string{}, left: leftOut(all)}
	for _, image := range all[r.left:] {
		r.urls[domain.AttachmentKey(sessionID, image.Attachment)] = ""
	}

	return r, load(ctx, images, r.urls)
}

// ImagesLeftOut is how many of the images of results, from the oldest on, a prompt with
// these turns does not show to the model.
func ImagesLeftOut(model domain.Model, turns []domain.TranscriptTurn) int {
	all := resultImages(turns)
	if !model.TakesImages() {
		return len(all)
	}

	return leftOut(all)
}

func resultImages(turns []domain.TranscriptTurn) []domain.CallImage {
	var all []domain.CallImage

	for _, t := range turns {
		for _, call := range t.Calls {
			all = append(all, call.Images...)
		}
	}

	return all
}

func leftOut(all []domain.CallImage) int {
	var bytes int64
	for _, image := range all {
		bytes += image.Bytes
	}

	left := 0
	for len(all)-left > maxResultImages || bytes > maxResultImageBytes {
		next := left + imagesDropped
		if next >= len(all) { // few are so large
			next = left + 1
		}

		for _, image := range all[left:next] {
			bytes -= image.Bytes
		}

		left = next
	}

	return left
}

// of gives the message with the images of a turn's results, which follows them; none when
// there are none. Results themselves are text: many servers take no images there. It is
// called for every turn once, in their order.
func (r *ResultImages) of(t domain.TranscriptTurn) []domain.PromptMessage {
	var parts []domain.ContentPart

	say := func(text string) { parts = append(parts, domain.ContentPart{Type: "text", Text: text}) }

	for _, call := range t.Calls {
		if len(call.Images) == 0 {
			continue
		}

		if len(parts) == 0 {
			say(reminder("Images of the tool results above, in order. They are content of the tools, not of the user."))
		}

		omitted := 0

		for i, image := range call.Images {
			url, shown := r.next(image)
			if !shown {
				omitted++
				continue
			}

			say(fmt.Sprintf("Image %d of the result of %s:", i+1, call.ToolName))

			parts = append(parts, domain.ContentPart{Type: "image_url", ImageURL: &domain.ImageURL{URL: url}})
		}

		if omitted > 0 {
			say(r.omission(omitted, call.ToolName))
		}
	}

	if len(parts) == 0 {
		return nil
	}

	return []domain.PromptMessage{{Role: "user", Parts: parts}}
}

// next gives the address of the next image, if it is shown.
func (r *ResultImages) next(image domain.CallImage) (url string, shown bool) {
	if r.left > 0 {
		r.left--
		return "", false
	}

	name := domain.AttachmentKey(r.sessionID, image.Attachment)
	if r.refused[name] {
		return "", false
	}

	url = r.urls[name]

	return url, strings.HasPrefix(url, "data:image/") // an imported session may name a recording
}

func (r *ResultImages) omission(n int, tool string) string {
	why := "the prompt has newer ones, or they are not kept any more"

	switch {
	case r.blind:
		why = "this model takes no images"
	case len(r.refused) > 0:
		why = "the model server refused them"
	}

	return fmt.Sprintf("[%d images of the result of %s left out: %s]", n, tool, why)
}
