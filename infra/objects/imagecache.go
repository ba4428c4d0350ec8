package objects

import (
	"container/list"
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// DefaultImageCache is the default size of a worker's cache of encoded pictures, in bytes.
const DefaultImageCache = 32 << 20

const imageTimeout = time.Minute

// ImageCache caches pictures as data URLs for model calls that send them repeatedly. A picture's
// name contains the hash of its content, so entries never become stale. The least recently used
// pictures are evicted.
type ImageCache struct {
	load   func(ctx context.Context, key string) (string, error)
	most   int
	flight singleflight.Group

	mu     sync.Mutex
	bytes  int
	byKey  map[string]*list.Element
	recent *list.List // of cachedImage, the most recently used first
}

type cachedImage struct{ key, url string }

// NewImageCache returns a cache of the results of load with at most most bytes.
func NewImageCache(load func(ctx context.Context, key string) (string, error), most int) *ImageCache {
	return &ImageCache{load: load, most: most, byKey: map[string]*list.Element{}, recent: list.New()}
}

// DataURL returns a picture as a data URL. Concurrent callers share one request, which a caller's
// context does not cancel. Failures are not cached.
func (c *ImageCache) DataURL(ctx context.Context, key string) (string, error) {
	if url, cached := c.get(key); cached {
		return url, nil
	}

	done := c.flight.DoChan(key, func() (any, error) {
		if url, cached := c.get(key); cached { // another caller has cached it in between
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

// put caches a picture, unless it would take too much of the cache.
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
