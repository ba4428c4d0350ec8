// Package objects stores large data in S3: pictures of messages and events too large for the log.
// It depends on buckets and keys, not on the content of objects.
package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"everloop/domain"
)

// Config is the configuration of the object store (S3_ENDPOINT and related settings in
// docs/configuration.md).
type Config struct {
	Endpoint  string // host:port
	Bucket    string
	AccessKey string
	SecretKey string
	UseTLS    bool
	Transport http.RoundTripper // nil: the library's default
	// Room returns an error when there is no space for attachments; nil: no limit.
	Room func() error
}

// Store is one bucket. A key is never the "directory" of another one, and no
// part of it is longer than 255 bytes.
type Store struct {
	client *minio.Client
	bucket string
	room   func() error
}

// Open connects to the bucket and creates it when missing.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	client, err := minio.New(cfg.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, ""), Secure: cfg.UseTLS, Transport: cfg.Transport,
	})
	if err != nil {
		return nil, fmt.Errorf("object store at %s: %w", cfg.Endpoint, err)
	}

	s := &Store{client: client, bucket: cfg.Bucket, room: cfg.Room}

	found, err := client.BucketExists(ctx, cfg.Bucket)
	if err != nil {
		return nil, fmt.Errorf("reach object store at %s: %w", cfg.Endpoint, err)
	}

	if !found {
		if err := client.MakeBucket(ctx, cfg.Bucket, minio.MakeBucketOptions{}); err != nil {
			return nil, fmt.Errorf("make bucket %s: %w", cfg.Bucket, err)
		}
	}

	return s, nil
}

// Ping checks that the bucket can be reached.
func (s *Store) Ping(ctx context.Context) error {
	found, err := s.client.BucketExists(ctx, s.bucket)
	if err == nil && !found {
		err = fmt.Errorf("bucket %s does not exist", s.bucket)
	}

	return err
}

// Put stores data under a key and overwrites an existing object.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	return s.put(ctx, key, "application/octet-stream", data)
}

func (s *Store) put(ctx context.Context, key, contentType string, data []byte) error {
	_, err := s.client.PutObject(
		ctx,
		s.bucket,
		key,
		bytes.NewReader(data),
		int64(len(data)),
		minio.PutObjectOptions{ContentType: contentType},
	)
	if err != nil {
		return domain.Unavailablef("the object store", err)
	}

	return nil
}

// Get returns the object of a key.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	data, _, err := s.get(ctx, key)
	return data, err
}

func (s *Store) get(ctx context.Context, key string) (data []byte, contentType string, err error) {
	object, err := s.client.GetObject(ctx, s.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, "", domain.Unavailablef("the object store", err)
	}
	defer object.Close()

	data, err = io.ReadAll(object)
	if err != nil {
		return nil, "", readFault(err)
	}

	info, err := object.Stat()

	return data, info.ContentType, err
}

// readFault converts an error of a read.
func readFault(err error) error {
	if answer, ok := errors.AsType[minio.ErrorResponse](err); ok && answer.StatusCode == http.StatusNotFound {
		return domain.Newf(domain.NotFound, "object_not_found", "the object does not exist")
	}

	return domain.Unavailablef("the object store", err)
}

// DeletePrefix deletes all objects below a prefix.
func (s *Store) DeletePrefix(ctx context.Context, prefix string) error {
	for object := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if object.Err != nil {
			return domain.Unavailablef("the object store", object.Err)
		}

		if err := s.client.RemoveObject(ctx, s.bucket, object.Key, minio.RemoveObjectOptions{}); err != nil {
			return domain.Unavailablef("the object store", err)
		}
	}

	return nil
}

// GetRange returns length bytes of an object from offset; fewer at its end.
func (s *Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	options := minio.GetObjectOptions{}
	if err := options.SetRange(offset, offset+length-1); err != nil {
		return nil, err
	}
	// Client.GetObject would send a second request for the size.
	body, _, _, err := (&minio.Core{Client: s.client}).GetObject(ctx, s.bucket, key, options)
	if err != nil {
		return nil, readFault(err)
	}
	defer body.Close()

	data := bytes.NewBuffer(make([]byte, 0, length+bytes.MinRead))
	if _, err := data.ReadFrom(body); err != nil {
		return nil, readFault(err)
	}

	return data.Bytes(), nil
}
