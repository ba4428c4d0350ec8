package external

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"everloop/domain"
)

// Objects returns a transport to an S3 server whose certificate is signed by the CA in a file;
// nil without a file: the client's default.
func Objects(useTLS bool, caFile string) (http.RoundTripper, error) {
	if caFile == "" {
		return nil, nil
	}

	if !useTLS {
		return nil, errors.New("S3_CA_FILE needs S3_USE_TLS")
	}

	pool, err := certPool("S3_CA_FILE", caFile)
	if err != nil {
		return nil, err
	}

	transport, err := minio.DefaultTransport(true)
	if err != nil {
		return nil, fmt.Errorf("transport to the S3 server: %w", err)
	}

	transport.TLSClientConfig.RootCAs = pool

	return transport, nil
}

// S3 contains the address, bucket and credentials of the object store.
type S3 struct {
	Endpoint, Bucket, AccessKey, SecretKey string
	UseTLS                                 bool
	Transport                              http.RoundTripper
}

// Probe checks that the bucket exists; it does not create it.
func (s S3) Probe(ctx context.Context) domain.CheckResult {
	c, err := minio.New(s.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Secure: s.UseTLS, Transport: s.Transport, MaxRetries: 1,
	})
	if err != nil {
		return failed("S3_ENDPOINT cannot be used", "it is host:port, without http://")
	}

	ctx, cancel := context.WithTimeout(ctx, 2*probeTime)
	defer cancel()

	found, err := c.BucketExists(ctx, s.Bucket)
	place := fmt.Sprintf("%s, bucket %s", s.Endpoint, s.Bucket)

	switch {
	case err != nil && minio.ToErrorResponse(err).Code != "":
		return failed(place+" refuses ("+minio.ToErrorResponse(err).Code+")", "correct S3_ACCESS_KEY, S3_SECRET_KEY or S3_BUCKET")
	case err != nil:
		return failed(place+" cannot be reached ("+Cause(err)+")", "start the server, or correct S3_ENDPOINT, S3_USE_TLS and S3_CA_FILE")
	case !found:
		return passed(place + " (will be made)")
	}

	return passed(place)
}
