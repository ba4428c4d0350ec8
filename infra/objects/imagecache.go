package objects

import (
	"container/list"
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// DefaultImageCache is how many bytes of encoded pictures a worker keeps.
const DefaultImageCache = 32 << 20

const imageTimeout = time.Minute

// ImageCache keeps pictures as data URLs for the model calls that send them again
// and again. A picture's name holds the hash of its content, so what is cached is
// never out of date. The least recently used pictures make place for new ones.
type ImageCache struct {
	load   func(ctx context.Context, key string) (string, error)
	most   int
	flight singleflight.Group

	mu     sync.Mutex
	bytes  int
	byKey  map[string]*list.Element
	recent *list.List // of cachedImage, the last used first
}

type cachedImage struct{ key, url string }

// NewImageCache caches what load gives, up to so many bytes.
func NewImageCache(load func(ctx context.Context, key string) (string, error), most int) *ImageCache {
	return &ImageCache{load: load, most: most, byKey: map[string]*list.Element{}, recent: list.New()}
}

// DataURL gives a picture as a data URL. Callers at the same time share one
// request, which none of them can cancel for the others. A failure is not kept.
func (c *ImageCache) DataURL(ctx context.Context, key string) (string, error) {
	if url, cached := c.get(key); cached {
		return url, nil
	}

	done := c.flight.DoChan(key, func() (any, error) {
		if url, cached := c.get(key); cached { // it came in between
			return url, nil
		}

		loading, cancel := context.WithTimeout(context.WithoutCancel(ctx), imageTimeout)
		defer cancel()

		url, err := c.load(loading, key)
		if err == nil {
			c.put(key, url)
		}

		return url, err
	})
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case r := <-done:
		if r.Err != nil {
			return "", r.Err
		}

		return r.Val.(string), nil
	}
}

func (c *ImageCache) get(key string) (url string, cached bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	e, cached := c.byKey[key]
	if !cached {
		return "", false
	}

	c.recent.MoveToFront(e)

	return e.Value.(cachedImage).url, true
}

// put keeps a picture, if it leaves place for others.
func (c *ImageCache) put(key, url string) {
	if len(url) > c.most/2 {
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.byKey[key] != nil {
		return
	}

	c.byKey[key] = c.recent.PushFront(cachedImage{key, url})
	for c.bytes += len(url); c.bytes > c.most; {
		last := c.recent.Remove(c.recent.Back()).(cachedImage)
		delete(c.byKey, last.key)
		c.bytes -= len(last.url)
	}
}
