package testkit

import (
	"context"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Bucket is a bucket of one test and the credentials for it.
type Bucket struct {
	Endpoint  string // host:port, plain HTTP
	Name      string
	AccessKey string
	SecretKey string
}

// bucketTime is the timeout for creating and removing a bucket.
const bucketTime = 5 * time.Minute

// Objects returns an empty bucket private to this test, removed with its objects at its end.
func Objects(t testing.TB) Bucket {
	t.Helper()
	found := Engines(t)
	bucket := Bucket{
		Endpoint: found.Get(t, "s3_endpoint"), Name: Prefix(t),
		AccessKey: found.Get(t, "s3_access_key"), SecretKey: found.Get(t, "s3_secret_key"),
	}

	client, err := minio.New(bucket.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(bucket.AccessKey, bucket.SecretKey, "")})
	if err != nil {
		t.Fatalf("connect to the object store: %v", err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), bucketTime)
	defer cancel()

	if err := client.MakeBucket(ctx, bucket.Name, minio.MakeBucketOptions{}); err != nil {
		t.Fatalf("make a bucket for the test: %v", err)
	}

	t.Cleanup(func() { removeBucket(t, client, bucket.Name) })

	return bucket
}

func removeBucket(t testing.TB, client *minio.Client, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), bucketTime)
	defer cancel()

	for object := range client.ListObjects(ctx, name, minio.ListObjectsOptions{Recursive: true}) {
		err := object.Err
		if err == nil {
			err = client.RemoveObject(ctx, name, object.Key, minio.RemoveObjectOptions{})
		}

		if err != nil {
			t.Errorf("empty the test's bucket: %v", err)
			return
		}
	}

	if err := client.RemoveBucket(ctx, name); err != nil {
		t.Errorf("remove the test's bucket: %v", err)
	}
}
