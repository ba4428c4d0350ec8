package external_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/external"
	"everloop/infra/objects"
	"everloop/internal/testkit"
)

func TestObjects_privateCA(t *testing.T) {
	t.Parallel()
	p := newPKI(t, "everloop")
	bucket := testkit.Objects(t)
	addr := proxyTLS(t, p, bucket.Endpoint, false, false, func(*http.Request) bool { return true })
	open := func(caFile string) (*objects.Store, error) {
		transport, err := external.Objects(true, caFile)
		require.NoError(t, err)

		return objects.Open(t.Context(), objects.Config{
			Endpoint: addr, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey, UseTLS: true,
			Transport: transport,
		})
	}
	store, err := open(p.caFile)
	require.NoError(t, err)
	require.NoError(t, store.Put(t.Context(), "a", []byte("over TLS")))
	content, err := store.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "over TLS", string(content))

	for _, wrong := range []string{"", p.otherCA} {
		_, err := open(wrong)
		require.ErrorContains(t, err, "certificate signed by unknown authority")
	}

	transport, err := external.Objects(true, p.caFile)
	require.NoError(t, err)

	s3 := external.S3{
		Endpoint:  addr,
		Bucket:    bucket.Name,
		AccessKey: bucket.AccessKey,
		SecretKey: bucket.SecretKey,
		UseTLS:    true,
		Transport: transport,
	}

	require.Eventually(t, func() bool { // a busy machine may not answer in time
		return s3.Probe(t.Context()).Status == domain.CheckOK
	}, time.Minute, time.Millisecond)

	s3.Transport = nil
	failed := s3.Probe(t.Context())
	require.Equal(t, domain.CheckFail, failed.Status)
	require.Contains(t, failed.Hint, "S3_CA_FILE")
}

func TestObjects_faults(t *testing.T) {
	t.Parallel()
	p := newPKI(t, "everloop")
	_, err := external.Objects(false, p.caFile)
	require.ErrorContains(t, err, "S3_CA_FILE needs S3_USE_TLS")
	_, err = external.Objects(true, p.dir+"/missing.pem")
	require.ErrorContains(t, err, "S3_CA_FILE: open ")
	_, err = external.Objects(true, p.serverKey)
	require.ErrorContains(t, err, "contains no certificate in PEM form")
}
