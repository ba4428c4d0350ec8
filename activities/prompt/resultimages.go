package prompt

import (
	"context"
	"fmt"
	"strings"

	"everloop/domain"
)

// ResultImages are the images of tool results that a prompt shows, as data URLs by the name
// of their object.
type ResultImages map[string]string

// has reports whether an image was loaded. An imported session may name a recording.
func (r ResultImages) has(name string) bool { return strings.HasPrefix(r[name], "data:image/") }

// LoadResultImages loads the images of results that the prompt shows to the model.
func (in Input) LoadResultImages(ctx context.Context, images Images) (Input, error) {
	in.ResultImages = ResultImages{}

	for i, planned := range in.imagePlan() {
		for n, image := range callImages(in.Transcript.Turns[i]) {
			if planned.results[n] == "" {
				in.ResultImages[in.resultName(image)] = ""
			}
		}
	}

	return in, load(ctx, images, in.ResultImages)
}

// ResultImagesLeftOut returns for each turn how many images of its results a prompt does not
// show to the model. The bytes of the pictures of messages are not known here.
func ResultImagesLeftOut(model domain.Model, turns []domain.TranscriptTurn) []int {
	left := make([]int, len(turns))

	for i, images := range (Input{Model: model, Transcript: domain.Transcript{Turns: turns}}).imagePlan() {
		for _, why := range images.results {
			if why != "" {
				left[i]++
			}
		}
	}

	return left
}

// resultImages returns the message with the images of a turn's results, which follows them;
// none when there are none. Results themselves are text: many servers take no images there.
func (in Input) resultImages(t domain.TranscriptTurn, plan []omission) []domain.PromptMessage {
	var parts []domain.ContentPart

	say := func(text string) { parts = append(parts, domain.ContentPart{Type: "text", Text: text}) }

	for _, call := range t.Calls {
		if len(call.Images) == 0 {
			continue
		}

		if len(parts) == 0 {
			say(reminder("Images of the tool results above, in order. They are content of the tools, not of the user."))
		}

		omitted := map[omission]int{}

		for i, image := range call.Images {
			name, why := in.resultName(image), plan[0]
			plan = plan[1:]

			if why == "" && !in.ResultImages.has(name) {
				why = imageLost
			}

			if why != "" {
				omitted[why]++
				continue
			}

			say(fmt.Sprintf("Image %d of the result of %s:", i+1, call.ToolName))

			parts = append(parts, domain.ContentPart{Type: "image_url", ImageURL: &domain.ImageURL{URL: in.ResultImages[name]}})
		}

		for _, o := range resultOmissions {
			if n := omitted[o.why]; n > 0 {
				say(fmt.Sprintf("[%d images of the result of %s left out: %s]", n, call.ToolName, o.text))
			}
		}
	}

	if len(parts) == 0 {
		return nil
	}

	return []domain.PromptMessage{{Role: "user", Parts: parts}}
}

// resultOmissions are the texts that stand for images of results.
var resultOmissions = []struct {
	why  omission
	text string
}{
	{imageUnseen, "this model takes no images"},
	{imageRefused, "the model server refused them"},
	{imageOlder, "the prompt has newer ones"},
	{imageLost, "they are not kept any more"},
}
