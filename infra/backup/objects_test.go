package backup

import (
	"archive/tar"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/require"
)

// store returns an object store that answers as the handler says.
func store(t *testing.T, handler http.HandlerFunc) Bucket {
	t.Helper()

	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)

	at, err := url.Parse(server.URL)
	require.NoError(t, err)

	client, err := minio.New(at.Host, &minio.Options{Creds: credentials.NewStaticV4("key", "secret", ""), Region: "us-east-1"})
	require.NoError(t, err)

	return Bucket{Client: client, Name: "bucket"}
}

func entry(size int64) *tar.Header {
	return &tar.Header{Size: size, PAXRecords: map[string]string{keyRecord: "k", typeRecord: "text/plain"}}
}

func TestBucket_put_againAfterAFault(t *testing.T) {
	t.Parallel()

	content := bytes.Repeat([]byte("content "), 100_000)

	var tries atomic.Int32

	var got atomic.Value

	bucket := store(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got.Store(int(r.ContentLength) == len(body))

		if tries.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	require.NoError(t, bucket.put(t.Context(), entry(int64(len(content))), io.MultiReader(bytes.NewReader(content))))
	require.EqualValues(t, 3, tries.Load())
	require.Equal(t, true, got.Load(), "the whole body came each time")
}
