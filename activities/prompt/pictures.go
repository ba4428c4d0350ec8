package prompt

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"everloop/domain"
)

// picturesAtOnce bounds how many pictures of one prompt are fetched at a time.
const picturesAtOnce = 4

// Images returns the pictures of messages as data URLs.
type Images interface {
	DataURL(ctx context.Context, object string) (string, error)
}

// Pictures gives the stored pictures of a transcript as data URLs, by the name of
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

	names := make([]string, 0, len(urls))
	for name := range urls {
		names = append(names, name)
	}

	var mu sync.Mutex

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(picturesAtOnce)

	for _, name := range names {
		group.Go(func() error {
			url, err := images.DataURL(ctx, name)
			if err != nil {
				return fmt.Errorf("load an image of the message: %w", err)
			}

			mu.Lock()
			defer mu.Unlock()

			urls[name] = url

			return nil
		})
	}

	return urls, group.Wait()
}

// storedPicture is the name of the object that holds a part's picture.
func storedPicture(p domain.ContentPart) (name string, stored bool) {
	if p.ImageURL == nil {
		return "", false
	}

	return strings.CutPrefix(p.ImageURL.URL, domain.ObjectScheme)
}

// withPictures gives a message's parts with the stored pictures in place of their
// names, and with the transcripts of recordings as texts.
func withPictures(parts []domain.ContentPart, pictures map[string]string) []domain.ContentPart {
	out := make([]domain.ContentPart, len(parts))
	for i, p := range parts {
		out[i] = p
		if name, stored := storedPicture(p); stored {
			out[i].ImageURL = &domain.ImageURL{URL: pictures[name]}
		}

		if p.AudioURL != nil {
			out[i] = domain.ContentPart{Type: "text", Text: p.Heard()}
		}
	}

	return out
}
