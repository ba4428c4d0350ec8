package objects

import (
	"context"
	"strings"

	"github.com/minio/minio-go/v7"

	"everloop/domain"
)

// CopyPrefix copies all objects below a prefix to another prefix. It is idempotent.
func (s *Store) CopyPrefix(ctx context.Context, from, to string) error {
	for object := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: from, Recursive: true}) {
		if object.Err != nil {
			return domain.Unavailablef("the object store", object.Err)
		}

		target := minio.CopyDestOptions{Bucket: s.bucket, Object: to + strings.TrimPrefix(object.Key, from)}
		if _, err := s.client.CopyObject(ctx, target, minio.CopySrcOptions{Bucket: s.bucket, Object: object.Key}); err != nil {
			return domain.Unavailablef("the object store", err)
		}
	}

	return nil
}

// Keys lists the keys below a prefix.
func (s *Store) Keys(ctx context.Context, prefix string) ([]string, error) {
	var keys []string

	for object := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if object.Err != nil {
			return nil, domain.Unavailablef("the object store", object.Err)
		}

		keys = append(keys, object.Key)
	}

	return keys, nil
}

// PutImage stores a picture of a session's messages under its name.
func (s *Store) PutImage(ctx context.Context, sessionID domain.SessionID, name, mime string, data []byte) error {
	return s.put(ctx, imagePrefix(sessionID)+name, mime, data)
}
