package domain

import (
	"maps"
	"slices"
)

// DefaultBucket is the environment bucket that reaches all of its user's sessions.
const DefaultBucket = "default"

// SessionEnv is the environment that a session adds to its tools' environment. Its values are
// secrets; the store encrypts values of this type.
type SessionEnv map[string]string

// EnvBucket is a named part of the environment of a user's tools.
type EnvBucket struct {
	Bucket string            `json:"bucket" doc:"The bucket." example:"default"`
	Env    map[string]string `json:"env" doc:"Variables of the environment." example:"{\"TOKEN\": \"abc\"}"`
}

// SealedBucket is an encrypted bucket, as stored.
type SealedBucket struct {
	Bucket string
	Sealed []byte
}

// BucketNames lists the buckets whose environment reaches the session's tools, later ones
// overriding earlier ones: the default bucket, the solution's bucket, and the buckets of its
// setup.
func (s Session) BucketNames() []string {
	names := []string{DefaultBucket}
	if s.SolutionID != nil {
		names = append(names, *s.SolutionID)
	}

	return append(names, s.Setup.EnvBuckets...)
}

// ToolEnv returns the environment of the session's tools: its buckets, overridden by its own
// environment.
func (s Session) ToolEnv(buckets []EnvBucket) map[string]string {
	env := map[string]string{}

	for _, name := range s.BucketNames() {
		if i := slices.IndexFunc(buckets, func(b EnvBucket) bool { return b.Bucket == name }); i >= 0 {
			maps.Copy(env, buckets[i].Env)
		}
	}

	maps.Copy(env, s.Env)

	return env
}
