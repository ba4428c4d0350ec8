// Package storage has the declarations of Google's client that Temporal's archiver for
// Google Cloud is compiled against. Everloop archives nothing there.
package storage

import (
	"context"
	"errors"
	"io"

	"google.golang.org/api/option"
)

var errLeftOut = errors.New("this build has no client of Google Cloud Storage")

// ScopeFullControl is the scope of credentials.
const ScopeFullControl = "https://www.googleapis.com/auth/devstorage.full_control"

// Client cannot be made.
type Client struct{}

// NewClient returns an error.
func NewClient(context.Context, ...option.ClientOption) (*Client, error) { return nil, errLeftOut }

// Bucket names a bucket.
func (*Client) Bucket(string) *BucketHandle { return nil }

// BucketHandle is a bucket that cannot be reached.
type BucketHandle struct{}

// BucketAttrs describes a bucket.
type BucketAttrs struct{}

// Attrs returns an error.
func (*BucketHandle) Attrs(context.Context) (*BucketAttrs, error) { return nil, errLeftOut }

// Object names an object.
func (*BucketHandle) Object(string) *ObjectHandle { return nil }

// Objects lists nothing, with an error.
func (*BucketHandle) Objects(context.Context, *Query) *ObjectIterator { return nil }

// Query selects objects.
type Query struct{ Prefix string }

// ObjectIterator lists nothing.
type ObjectIterator struct{}

// Next returns an error.
func (*ObjectIterator) Next() (*ObjectAttrs, error) { return nil, errLeftOut }

// ObjectAttrs describes an object.
type ObjectAttrs struct{ Name string }

// ObjectHandle is an object that cannot be reached.
type ObjectHandle struct{}

// Attrs returns an error.
func (*ObjectHandle) Attrs(context.Context) (*ObjectAttrs, error) { return nil, errLeftOut }

// NewReader returns an error.
func (*ObjectHandle) NewReader(context.Context) (*Reader, error) { return nil, errLeftOut }

// NewWriter starts an object whose every write fails.
func (*ObjectHandle) NewWriter(context.Context) *Writer { return nil }

// Reader cannot be made.
type Reader struct{ io.ReadCloser }

// Writer writes nothing.
type Writer struct{}

func (*Writer) Write([]byte) (int, error) { return 0, errLeftOut }

// Close returns an error.
func (*Writer) Close() error { return errLeftOut }

// CloseWithError returns an error.
func (*Writer) CloseWithError(error) error { return errLeftOut }
