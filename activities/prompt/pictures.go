package prompt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"everloop/domain"
)

// maxConcurrentPictures bounds how many pictures of one prompt are fetched at a time.
const maxConcurrentPictures = 4

// Images returns pictures of messages and of tool results as data URLs.
type Images interface {
	DataURL(ctx context.Context, object string) (string, error)
}

// Pictures returns the stored pictures of a transcript as data URLs, by the name of
// their object. Each is fetched once, several at a time.
func Pictures(ctx context.Context, images Images, turns []domain.TranscriptTurn) (map[string]string, error) {
	urls := map[string]string{}

	for _, t := range turns {
		for _, p := range t.Parts {
			if name, stored := storedPicture(p); stored {
				urls[name] = ""
			}
		}
	}

	if err := load(ctx, images, urls); err != nil {
		return nil, err
	}

	for name, url := range urls {
		if url == "" {
			return nil, fmt.Errorf(
				"load an image of the message: %w",
				domain.Newf(domain.NotFound, "object_not_found", "%s does not exist", name),
			)
		}
	}

	return urls, nil
}

// load fills in the data URLs of pictures by the names of their objects, several at a
// time. One whose object is not there stays empty.
func load(ctx context.Context, images Images, urls map[string]string) error {
	names := slices.Sorted(maps.Keys(urls))

	var mu sync.Mutex

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentPictures)

	for _, name := range names {
		group.Go(func() error {
			url, err := images.DataURL(ctx, name)
			if domain.HasCode(err, "object_not_found") {
				return nil
			}

			if err != nil {
				return fmt.Errorf("load an image of the prompt: %w", err)
			}

			mu.Lock()
			defer mu.Unlock()

			urls[name] = url

			return nil
		})
	}

	return group.Wait()
}

// storedPicture returns the name of the object that holds a part's picture.
func storedPicture(p domain.ContentPart) (name string, stored bool) {
	if p.ImageURL == nil {
		return "", false
	}

	return strings.CutPrefix(p.ImageURL.URL, domain.ObjectScheme)
}

// withPictures returns a message's parts with the stored pictures in place of their
// names, with texts for those that are left out and for an address, which older messages
// have and which no model server may be made to fetch, and with the transcripts of
// recordings as texts.
func withPictures(parts []domain.ContentPart, pictures map[string]string, images []omission) []domain.ContentPart {
	out := make([]domain.ContentPart, len(parts))
	shown := 0

	for i, p := range parts {
		out[i] = p

		if p.ImageURL != nil {
			shown++

			if why := images[shown-1]; why != "" {
				out[i] = omitted(shown, why)
				continue
			}
		}

		if name, stored := storedPicture(p); stored {
			out[i].ImageURL = &domain.ImageURL{URL: pictures[name]}
		}

		if p.ImageURL != nil && domain.IsWebAddress(p.ImageURL.URL) {
			out[i] = domain.ContentPart{Type: "text", Text: "[A picture at " + p.ImageURL.URL + " that was not stored.]"}
		}

		if p.AudioURL != nil {
			out[i] = domain.ContentPart{Type: "text", Text: p.Heard()}
		}
	}

	return out
}
