//go:build linux

package snapshots

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/infra/objects"
	"everloop/internal/testkit"
)

// counted stands before an S3 server and counts the requests that reach it.
type counted struct {
	mu       sync.Mutex
	requests []string
}

// taken gives the requests since the last call.
func (c *counted) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()

	list := c.requests
	c.requests = nil

	return list
}

// newCountedBench returns a bench whose requests to the S3 server are counted.
func newCountedBench(t *testing.T) (*bench, *counted) {
	t.Helper()
	bucket := testkit.Objects(t)
	c := &counted{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: bucket.Endpoint})
		r.Out.Host = r.In.Host // which is signed
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests = append(c.requests, r.Method+" "+r.URL.Path)
		c.mu.Unlock()

		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)

	store, err := objects.Open(t.Context(), objects.Config{
		Endpoint: strings.TrimPrefix(front.URL, "http://"), Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
	})
	require.NoError(t, err)

	b := &bench{objects: store, session: "0190-session", root: t.TempDir()}
	b.restart(t)
	c.taken()

	return b, c
}

func TestCapture_littleThatIsNewIsOneRequest(t *testing.T) {
	t.Parallel()
	b, c := newCountedBench(t)

	for i := range 20 {
		b.put(t, fmt.Sprintf("src/%d.go", i), fmt.Sprintf("package p%d\n", i))
	}

	key := func(s Snapshot) string {
		return "/snapshots/" + string(b.session) + "/manifests/" + s.ID[strings.IndexByte(s.ID, '.')+1:]
	}
	one := func(want string) {
		t.Helper()

		list := c.taken()
		require.Len(t, list, 1)
		require.Contains(t, list[0], want)
	}

	first := b.capture(t, "")
	one(key(first))
	require.Positive(t, first.Stored)

	b.put(t, "src/0.go", "package changed\n")
	b.put(t, "new", "content")
	second := b.capture(t, first.ID)
	one(key(second))

	want := picture(t, b.root)

	// A process that remembers nothing reads the head, and stores the next one.
	b.restart(t)
	b.put(t, "new", "other content")
	third := b.capture(t, second.ID)
	require.Equal(t, 1, third.Changed)

	list := c.taken()
	require.Len(t, list, 2)
	require.True(t, strings.HasPrefix(list[0], "GET "), list[0])
	require.True(t, strings.HasPrefix(list[1], "PUT "), list[1])

	b.restart(t)
	require.Equal(t, 1, b.restore(t, second.ID).Restored)
	one("GET ")
	require.Equal(t, want, picture(t, b.root))
}

// noise returns a content that does not become smaller when it is compressed.
func noise(n int, seed byte) string {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)

	return string(data)
}

// Contents that no pack has are carried from manifest to manifest, until they are too
// many for one; each of the snapshots can be restored on its own.
func TestCapture_contentsGoIntoAPackWhenThereAreMany(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := &gate{Objects: b.objects}
	b.store = b.fresh(t, g)

	var all []kept

	previous, packs := "", 0

	for i := range 12 {
		b.put(t, fmt.Sprintf("file-%d", i), noise(6<<10, byte(i)))

		if i == 7 {
			b.store = b.fresh(t, g)
		}

		g.put = nil
		s := b.capture(t, previous)
		previous = s.ID
		all = append(all, kept{s.ID, picture(t, b.root)})

		if len(g.put) == 1 {
			continue
		}

		packs++

		require.Len(t, g.put, 3, "pack, part, head")
		require.Contains(t, g.put[0], "/packs/")
		require.Contains(t, g.put[2], "/manifests/")
	}

	require.Equal(t, 2, packs, "each time that there were more than 32 KiB")

	for _, k := range all {
		b.restart(t)
		b.clear(t)
		require.Empty(t, b.restore(t, k.id).Skipped)
		require.Equal(t, k.tree, picture(t, b.root))
	}
}

// A content that was replaced is not carried on.
func TestCapture_onlyContentsOfTheTreeAreCarried(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := &gate{Objects: b.objects}
	b.store = b.fresh(t, g)
	previous := ""

	for i := range 8 {
		b.put(t, "changes", noise(20<<10, byte(i)))
		s := b.capture(t, previous)
		previous = s.ID

		require.Len(t, g.put, i+1)
		require.Less(t, s.Stored, int64(24<<10))
	}
}

// A manifest may be replaced, by a process that knows nothing of what others refer to.
func TestCapture_replacedManifestsKeepTheContentsOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put(t, "stays", noise(5000, 1))
	b.put(t, "changes", "1")
	one := b.capture(t, "")
	before := picture(t, b.root)

	b.put(t, "changes", "2")
	two := b.capture(t, one.ID)
	after := picture(t, b.root)

	b.restart(t)
	apart(b.store)
	b.put(t, "changes", "1")
	require.Equal(t, one.ID, b.capture(t, two.ID).ID)
	b.restart(t)
	b.put(t, "changes", "2")
	require.Equal(t, two.ID, b.capture(t, "").ID, "all of it is new to this process")

	for id, want := range map[string]map[string]string{one.ID: before, two.ID: after} {
		b.restart(t)
		b.clear(t)
		b.restore(t, id)
		require.Equal(t, want, picture(t, b.root))
	}
}

// Snapshots of both forms follow each other: of an older version, and of which much is new.
func TestCapture_formsFollowEachOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)

	var all []kept

	previous := ""

	for i := range 6 {
		b.put(t, fmt.Sprintf("dir/%d", i), noise(1000, byte(i)))

		if i%3 == 0 {
			b.restart(t)
		}

		b.store.compactContents, b.store.compactParts = compactContents, compactParts
		if i%2 == 0 {
			apart(b.store)
		}

		s := b.capture(t, previous)
		previous = s.ID
		all = append(all, kept{s.ID, picture(t, b.root)})
	}

	// Unchanged, and known by another process only.
	b.restart(t)
	require.Equal(t, previous, b.capture(t, previous).ID)
	require.NoError(t, os.Remove(filepath.Join(b.root, "dir/0")))
	s := b.capture(t, previous)
	all = append(all, kept{s.ID, picture(t, b.root)})

	for _, k := range all {
		b.restart(t)
		b.clear(t)
		require.Empty(t, b.restore(t, k.id).Skipped)
		require.Equal(t, k.tree, picture(t, b.root))
	}
}

// A manifest that grows too large has its parts next to it, and its contents in a pack.
func TestCapture_largePartsAreObjects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := &gate{Objects: b.objects}
	b.store = b.fresh(t, g)
	b.store.compactParts = 400
	b.put(t, "first", "content")
	first := b.capture(t, "")
	require.Len(t, g.put, 1)

	for i := range 100 {
		b.put(t, fmt.Sprintf("%x", noise(32, byte(i))), "") // names that no compression makes small
	}

	want := picture(t, b.root)
	second := b.capture(t, first.ID)
	require.Len(t, g.put, 4, "pack, part, head")

	b.restart(t)
	b.clear(t)
	require.Empty(t, b.restore(t, second.ID).Skipped)
	require.Equal(t, want, picture(t, b.root))
	require.Equal(t, 100, b.restore(t, first.ID).Deleted)
	require.Equal(t, "content", b.get(t, "first"))
}
