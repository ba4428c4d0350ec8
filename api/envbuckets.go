package api

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// EnvBuckets are the named environments of a user's tools, encrypted where they
// are kept. A bucket that there is not is env_bucket_not_found.
type EnvBuckets interface {
	List(ctx context.Context, userID string, names ...string) ([]domain.EnvBucket, error)
	Get(ctx context.Context, userID, bucket string) (domain.EnvBucket, error)
	Set(ctx context.Context, userID string, bucket domain.EnvBucket) error
	Delete(ctx context.Context, userID, bucket string) error
}

// BucketRef is the path of an operation on one environment bucket.
type BucketRef struct {
	Bucket string `path:"bucket" maxLength:"128" pattern:"^[A-Za-z0-9][A-Za-z0-9_.:-]*$" patternDescription:"letters, digits and _ . : -, the first a letter or digit"`
}

func (s *server) envBucketRoutes() {
	const path, one, tag = "/api/env/buckets", "/api/env/buckets/{bucket}", "Environment"
	op := func(id, method, path, summary string) operation {
		return operation{id: id, method: method, path: path, tag: tag, summary: summary, scope: auth.Unrestricted}
	}
	add(s, op("list-env-buckets", fiber.MethodGet, path, "The caller's environment buckets, with their values"),
		func(ctx context.Context, _ *struct{}) (*body[[]domain.EnvBucket], error) {
			buckets, err := s.EnvBuckets.List(ctx, callerOf(ctx).User.ID)
			return answer(orEmpty(buckets), err)
		})
	add(s, op("get-env-bucket", fiber.MethodGet, one, "One environment bucket"),
		func(ctx context.Context, in *BucketRef) (*body[domain.EnvBucket], error) {
			return answer(s.EnvBuckets.Get(ctx, callerOf(ctx).User.ID, in.Bucket))
		})
	add(s, op("set-env-bucket", fiber.MethodPut, one, "Replace the environment of a bucket"), s.setBucket)
	add(s, op("delete-env-bucket", fiber.MethodDelete, one, "Delete an environment bucket"),
		func(ctx context.Context, in *BucketRef) (*body[bucketDeleted], error) {
			return answer(bucketDeleted{in.Bucket, "deleted"}, s.EnvBuckets.Delete(ctx, callerOf(ctx).User.ID, in.Bucket))
		})
}

type bucketDeleted struct {
	Bucket string `json:"bucket"`
	Status string `json:"status" enum:"deleted"`
}

func (s *server) setBucket(ctx context.Context, in *struct {
	BucketRef
	Body struct {
		Env map[string]string `json:"env" doc:"The whole environment: what is not named is gone."`
	}
},
) (*body[domain.EnvBucket], error) {
	env, err := cleanEnv(in.Body.Env)
	if err != nil {
		return nil, err
	}
	bucket := domain.EnvBucket{Bucket: in.Bucket, Env: env}
	return answer(bucket, s.EnvBuckets.Set(ctx, callerOf(ctx).User.ID, bucket))
}
