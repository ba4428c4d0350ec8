package embedded

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3response"
)

// durableFiles makes acknowledged objects survive a power failure. The gateway links complete
// files into place, so a crash never leaves partial objects, but it does not flush: here every
// operation that creates an object flushes the file and all directories up to the bucket before
// the response.
type durableFiles struct {
	*posix.Posix
	root    string
	sidecar string // empty: metadata is in extended attributes, flushed with the file
}

// PutObject stores an object durably.
func (d *durableFiles) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	out, err := d.Posix.PutObject(ctx, in)
	if err == nil {
		err = d.flush(in.Bucket, in.Key)
	}

	return out, err
}

// CopyObject copies an object durably.
func (d *durableFiles) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (s3response.CopyObjectOutput, error) {
	out, err := d.Posix.CopyObject(ctx, in)
	if err == nil {
		err = d.flush(in.Bucket, in.Key)
	}

	return out, err
}

// CompleteMultipartUpload joins the parts of an object durably. Parts are not flushed: the client
// repeats a lost upload.
func (d *durableFiles) CompleteMultipartUpload(
	ctx context.Context,
	in *s3.CompleteMultipartUploadInput,
) (s3response.CompleteMultipartUploadResult, string, error) {
	out, version, err := d.Posix.CompleteMultipartUpload(ctx, in)
	if err == nil {
		err = d.flush(in.Bucket, in.Key)
	}

	return out, version, err
}

// CreateBucket creates a bucket durably.
func (d *durableFiles) CreateBucket(ctx context.Context, in *s3.CreateBucketInput, acl []byte) error {
	if err := d.Posix.CreateBucket(ctx, in, acl); err != nil {
		return err
	}

	return errors.Join(syncPath(filepath.Join(d.root, *in.Bucket)), syncPath(d.root))
}

// flush flushes an object and its directories up to the bucket. A missing object was deleted
// concurrently, which is not an error.
func (d *durableFiles) flush(bucket, key *string) error {
	err := syncUpwards(filepath.Join(d.root, *bucket), filepath.FromSlash(*key))
	if err == nil && d.sidecar != "" {
		err = d.flushSidecar(*bucket, *key)
	}

	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}

// flushSidecar flushes the metadata files of an object.
func (d *durableFiles) flushSidecar(bucket, key string) error {
	const metadataDir = "meta" // the gateway's directory name

	names, err := os.ReadDir(filepath.Join(d.sidecar, bucket, filepath.FromSlash(key), metadataDir))
	if err != nil {
		return err
	}

	for _, name := range names {
		err := syncPath(filepath.Join(d.sidecar, bucket, filepath.FromSlash(key), metadataDir, name.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // replaced concurrently
			return err
		}
	}

	return syncUpwards(d.sidecar, filepath.Join(bucket, filepath.FromSlash(key), metadataDir))
}

// syncUpwards flushes top/path and every directory from there up to top.
func syncUpwards(top, path string) error {
	for path = filepath.Clean(path); path != "." && path != "/"; path = filepath.Dir(path) {
		if err := syncPath(filepath.Join(top, path)); err != nil {
			return err
		}
	}

	return syncPath(top)
}
