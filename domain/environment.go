package domain

import (
	"maps"
	"slices"
)

// DefaultBucket is the environment bucket that reaches all of its user's sessions.
const DefaultBucket = "default"

// SessionEnv is the environment that a session adds to that of its tools. Its values
// are secrets: they are kept encrypted, which the store recognises by this type.
type SessionEnv map[string]string

// EnvBucket is a named part of the environment of a user's tools.
type EnvBucket struct {
	Bucket string            `json:"bucket" doc:"The bucket." example:"default"`
	Env    map[string]string `json:"env" doc:"Variables of the environment." example:"{\"TOKEN\": \"abc\"}"`
}

// SealedBucket is a bucket as it is kept: encrypted.
type SealedBucket struct {
	Bucket string
	Sealed []byte
}

// BucketNames lists the buckets whose environment reaches the session's tools,
// the later over the earlier: the default one, that of its solution, and those
// that its setup names.
func (s Session) BucketNames() []string {
	names := []string{DefaultBucket}
	if s.SolutionID != nil {
		names = append(names, *s.SolutionID)
	}

	return append(names, s.Setup.EnvBuckets...)
}

// ToolEnv is what the session's tools get: its buckets, and its own environment
// over them.
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
