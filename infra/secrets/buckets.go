package secrets

import (
	"context"
	"encoding/json"
	"fmt"

	"everloop/domain"
)

// Store stores sealed buckets.
type Store interface {
	SealedBuckets(ctx context.Context, userID string, names ...string) ([]domain.SealedBucket, error)
	SetSealedBucket(ctx context.Context, userID string, bucket domain.SealedBucket) error
	DeleteBucket(ctx context.Context, userID, bucket string) (bool, error)
	// AllowSecrets reports whether a session that members of a workspace control can use its
	// owner's environment, and records the use.
	AllowSecrets(ctx context.Context, session domain.Session) (bool, error)
}

// Buckets stores users' environment buckets encrypted at rest.
type Buckets struct {
	Store  Store
	Box    *Box
	Recent *Recent // nil: the buckets are read for every tool
}

// List returns the named buckets of the user, or all without names.
func (b Buckets) List(ctx context.Context, userID string, names ...string) ([]domain.EnvBucket, error) {
	sealed, err := b.Store.SealedBuckets(ctx, userID, names...)
	if err != nil {
		return nil, err
	}

	buckets := make([]domain.EnvBucket, len(sealed))
	for i, s := range sealed {
		buckets[i].Bucket = s.Bucket

		text, err := b.Box.Open(purpose(userID, s.Bucket), s.Sealed)
		if err == nil {
			err = json.Unmarshal(text, &buckets[i].Env)
		}

		if err != nil {
			return nil, fmt.Errorf("open environment bucket %s: %w", s.Bucket, err)
		}
	}

	return buckets, nil
}

// Get returns one bucket; env_bucket_not_found.
func (b Buckets) Get(ctx context.Context, userID, bucket string) (domain.EnvBucket, error) {
	found, err := b.List(ctx, userID, bucket)
	if err != nil {
		return domain.EnvBucket{}, err
	}

	if len(found) == 0 {
		return domain.EnvBucket{}, notFound(bucket)
	}

	return found[0], nil
}

// Set replaces a bucket's environment.
func (b Buckets) Set(ctx context.Context, userID string, bucket domain.EnvBucket) error {
	text, err := json.Marshal(bucket.Env)
	if err != nil {
		return err
	}

	sealed, err := b.Box.Seal(purpose(userID, bucket.Bucket), text)
	if err != nil {
		return err
	}
	defer b.Recent.forget()

	return b.Store.SetSealedBucket(ctx, userID, domain.SealedBucket{Bucket: bucket.Bucket, Sealed: sealed})
}

// Delete removes a bucket; env_bucket_not_found.
func (b Buckets) Delete(ctx context.Context, userID, bucket string) error {
	defer b.Recent.forget()

	found, err := b.Store.DeleteBucket(ctx, userID, bucket)
	if err == nil && !found {
		return notFound(bucket)
	}

	return err
}

// ToolEnv returns the environment of a session's tools. A session that other users control has
// none unless its owner allows it.
func (b Buckets) ToolEnv(ctx context.Context, session domain.Session) (map[string]string, error) {
	if session.SteeredByOthers() {
		if allowed, err := b.Store.AllowSecrets(ctx, session); err != nil || !allowed {
			return map[string]string{}, err
		}
	}

	names := session.BucketNames()

	buckets, err := b.Recent.use(session.OwnerID, names, func() ([]domain.EnvBucket, error) {
		return b.List(ctx, session.OwnerID, names...)
	})
	if err != nil {
		return nil, err
	}

	return session.ToolEnv(buckets), nil
}

func purpose(userID, bucket string) string { return "env/" + userID + "/" + bucket }

func notFound(bucket string) *domain.Error {
	return domain.Newf(domain.NotFound, "env_bucket_not_found", "environment bucket %s does not exist", bucket)
}
