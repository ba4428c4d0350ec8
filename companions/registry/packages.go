package registry

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// prefix is the key prefix of the registry's objects.
const prefix = "registry/packages/"

// packages stores archives in the bucket.
type packages struct {
	client *minio.Client
	bucket string
}

func openPackages(ctx context.Context, b Bucket) (*packages, error) {
	client, err := minio.New(b.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(b.AccessKey, b.SecretKey, ""), Secure: b.UseTLS, Transport: b.Transport,
	})
	if err != nil {
		return nil, fmt.Errorf("object store at %s: %w", b.Endpoint, err)
	}

	p := &packages{client: client, bucket: b.Name}

	found, err := client.BucketExists(ctx, b.Name)
	if err != nil {
		return nil, fmt.Errorf("reach object store at %s: %w", b.Endpoint, err)
	}

	if !found {
		err := client.MakeBucket(ctx, b.Name, minio.MakeBucketOptions{})
		if err != nil && minio.ToErrorResponse(err).Code != "BucketAlreadyOwnedByYou" { // the agent has created it first
			return nil, fmt.Errorf("make bucket %s: %w", b.Name, err)
		}
	}

	return p, nil
}

func (p *packages) ping(ctx context.Context) error {
	found, err := p.client.BucketExists(ctx, p.bucket)
	if err == nil && !found {
		err = errors.New("the bucket does not exist")
	}

	return err
}

func (p *packages) put(ctx context.Context, key string, content io.Reader, size int64) error {
	if _, err := p.client.PutObject(ctx, p.bucket, prefix+key, content, size, packageOptions); err != nil {
		return fmt.Errorf("store package: %w", err)
	}

	return nil
}

// open opens an existing package for reading.
func (p *packages) open(ctx context.Context, key string) (*minio.Object, error) {
	object, err := p.client.GetObject(ctx, p.bucket, prefix+key, minio.GetObjectOptions{})
	if err != nil {
		return nil, fmt.Errorf("read package: %w", err)
	}

	if _, err := object.Stat(); err != nil {
		_ = object.Close()
		return nil, fmt.Errorf("read package: %w", err)
	}

	return object, nil
}

// remove deletes a package, if it exists.
func (p *packages) remove(ctx context.Context, key string) error {
	if err := p.client.RemoveObject(ctx, p.bucket, prefix+key, minio.RemoveObjectOptions{}); err != nil {
		return fmt.Errorf("remove package: %w", err)
	}

	return nil
}
