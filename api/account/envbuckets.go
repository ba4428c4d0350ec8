package account

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/infra/secrets"
)

// BucketRef is the path of an operation on one environment bucket.
type BucketRef struct {
	Bucket string `path:"bucket" maxLength:"128" pattern:"^[A-Za-z0-9][A-Za-z0-9_.:-]*$" patternDescription:"letters, digits and _ . : -, the first a letter or digit" doc:"The bucket." example:"default"`
}

// EnvBucketsAPI manages environment buckets.
type EnvBucketsAPI struct {
	EnvBuckets secrets.Buckets
}

// Register adds the operations of the area to the interface.
func (a *EnvBucketsAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "list-env-buckets", Method: fiber.MethodGet, Path: "/api/env/buckets", Tag: "Environment",
		Summary: "List the caller's environment buckets, with their values",
		Scope:   auth.Unrestricted,
	},
		func(ctx context.Context, _ *struct{}) (*httpx.Body[[]domain.EnvBucket], error) {
			buckets, err := a.EnvBuckets.List(ctx, httpx.CallerOf(ctx).User.ID)
			return httpx.Answer(fields.OrEmpty(buckets), err)
		})
	httpx.Register(r, httpx.Operation{
		ID: "get-env-bucket", Method: fiber.MethodGet, Path: "/api/env/buckets/{bucket}", Tag: "Environment",
		Summary: "Get an environment bucket",
		Scope:   auth.Unrestricted,
		Errors:  httpx.Codes{404: "env_bucket_not_found"},
	},
		func(ctx context.Context, in *BucketRef) (*httpx.Body[domain.EnvBucket], error) {
			return httpx.Answer(a.EnvBuckets.Get(ctx, httpx.CallerOf(ctx).User.ID, in.Bucket))
		})
	httpx.Register(r, httpx.Operation{
		ID: "set-env-bucket", Method: fiber.MethodPut, Path: "/api/env/buckets/{bucket}", Tag: "Environment",
		Summary: "Replace the variables of an environment bucket",
		Description: "Values are encrypted at rest. The bucket default is passed to the tools of all of the caller's sessions, a " +
			"bucket named as a solution to those of that solution, and others to the sessions that name them in " +
			"session_setup.env_buckets.",
		Scope:   auth.Unrestricted,
		Example: `{"env": {"TOKEN": "abc"}}`,
	}, a.setBucket)
	httpx.Register(r, httpx.Operation{
		ID: "delete-env-bucket", Method: fiber.MethodDelete, Path: "/api/env/buckets/{bucket}", Tag: "Environment",
		Summary: "Delete an environment bucket",
		Scope:   auth.Unrestricted, Audit: "env_bucket.delete",
		Errors: httpx.Codes{404: "env_bucket_not_found"},
	},
		func(ctx context.Context, in *BucketRef) (*httpx.Body[bucketDeleted], error) {
			return httpx.Answer(bucketDeleted{in.Bucket, "deleted"}, a.EnvBuckets.Delete(ctx, httpx.CallerOf(ctx).User.ID, in.Bucket))
		})
}

type bucketDeleted struct {
	Bucket string `json:"bucket" doc:"The bucket." example:"default"`
	Status string `json:"status" enum:"deleted" doc:"Its status."`
}

func (a *EnvBucketsAPI) setBucket(ctx context.Context, in *struct {
	BucketRef
	Body struct {
		Env map[string]string `json:"env" doc:"The whole environment: what is not named is gone." example:"{\"TOKEN\": \"abc\"}"`
	}
},
) (*httpx.Body[domain.EnvBucket], error) {
	env, err := fields.CleanEnv(in.Body.Env)
	if err != nil {
		return nil, err
	}

	bucket := domain.EnvBucket{Bucket: in.Bucket, Env: env}

	return httpx.Answer(bucket, a.EnvBuckets.Set(ctx, httpx.CallerOf(ctx).User.ID, bucket))
}
