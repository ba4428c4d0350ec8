package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
)

// objectsPart is the prefix of object entries. Their keys are in records, because they are not
// valid file names.
const objectsPart = "objects"

// PAX records of an entry.
const (
	records     = "EVERLOOP."
	keyRecord   = records + "key"
	typeRecord  = records + "content-type"
	metaRecords = records + "meta."
)

// Bucket is a bucket of an S3 server.
type Bucket struct {
	Client *minio.Client
	Name   string
}

// objects writes all objects of a bucket. Objects that are deleted in the meantime are skipped.
func (a *archive) objects(ctx context.Context, b Bucket) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // stops the listing

	n := 0

	for found := range b.Client.ListObjects(ctx, b.Name, minio.ListObjectsOptions{Recursive: true}) {
		if found.Err != nil {
			return fmt.Errorf("list the objects: %w", found.Err)
		}

		n++
		if err := a.object(ctx, b, found.Key, n); err != nil {
			return fmt.Errorf("back up object %q: %w", found.Key, err)
		}
	}

	return ctx.Err()
}

func (a *archive) object(ctx context.Context, b Bucket, key string, n int) error {
	body, info, _, err := (&minio.Core{Client: b.Client}).GetObject(ctx, b.Name, key, minio.GetObjectOptions{})
	if missing(err) {
		return nil
	}

	if err != nil {
		return err
	}

	defer body.Close()

	header := &tar.Header{
		Name: fmt.Sprintf("%s/%08d", objectsPart, n), Typeflag: tar.TypeReg, Mode: 0o600, Size: info.Size, ModTime: info.LastModified,
		PAXRecords: map[string]string{keyRecord: key, typeRecord: info.ContentType},
	}
	for name, value := range info.UserMetadata {
		header.PAXRecords[metaRecords+name] = value
	}

	// Objects never change their size in place: a short body is an error of the connection.
	return a.add(header, &exact{from: body, left: info.Size})
}

// exact is a reader that fails when its source ends early.
type exact struct {
	from io.Reader
	left int64
}

func (e *exact) Read(p []byte) (int, error) {
	n, err := e.from.Read(p)
	e.left -= int64(n)

	if errors.Is(err, io.EOF) && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}

	return n, err
}

func missing(err error) bool {
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && answer.StatusCode == http.StatusNotFound
}

// empty returns an error for a bucket with objects, and creates a missing bucket.
func (b Bucket) empty(ctx context.Context) error {
	found, err := b.Client.BucketExists(ctx, b.Name)
	if err != nil {
		return fmt.Errorf("reach the object store: %w", err)
	}

	if !found {
		return b.Client.MakeBucket(ctx, b.Name, minio.MakeBucketOptions{})
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	first, some := <-b.Client.ListObjects(ctx, b.Name, minio.ListObjectsOptions{Recursive: true, MaxKeys: 1})

	switch {
	case !some:
		return nil
	case first.Err != nil:
		return fmt.Errorf("list the objects: %w", first.Err)
	default:
		return fmt.Errorf("the bucket %s is not empty: a restore needs an empty one", b.Name)
	}
}

// put uploads one object.
func (b Bucket) put(ctx context.Context, header *tar.Header, body io.Reader) error {
	key := header.PAXRecords[keyRecord]
	if key == "" {
		return fmt.Errorf("%w: %s has no key", ErrDamaged, header.Name)
	}

	options := minio.PutObjectOptions{ContentType: header.PAXRecords[typeRecord], UserMetadata: map[string]string{}}

	for name, value := range header.PAXRecords {
		if name, ok := strings.CutPrefix(name, metaRecords); ok {
			options.UserMetadata[name] = value
		}
	}

	if header.Size <= heldObject {
		content, err := io.ReadAll(body)
		if err != nil {
			return err
		}

		body = bytes.NewReader(content)
	}

	if _, err := b.Client.PutObject(ctx, b.Name, key, body, header.Size, options); err != nil {
		return fmt.Errorf("restore object %q: %w", key, err)
	}

	return nil
}

// heldObject is the maximum size of an object that is buffered before it is sent, in bytes: the
// client of the store sends such a body again after a transient error, and can read it for a
// moment after a failure. Larger objects are uploaded in buffered parts.
const heldObject = 16 << 20
