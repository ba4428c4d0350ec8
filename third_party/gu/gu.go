// Package gu has the functions that github.com/zitadel/oidc needs of a module of this
// path. That module is under the Unlicense, which is none of the licences that this
// project takes: go.mod replaces it by these, which are written for the project.
package gu

import "fmt"

// MapMerge sets the entries of one map in another.
func MapMerge[K comparable, V any](from, into map[K]V) {
	for key, value := range from {
		into[key] = value
	}
}

// MapCopy is a map of the same entries; nil of nil.
func MapCopy[K comparable, V any](from map[K]V) map[K]V {
	if from == nil {
		return nil
	}
	into := make(map[K]V, len(from))
	MapMerge(from, into)
	return into
}

// AssertInterfaces gives the values as those of one type.
func AssertInterfaces[T any](values []any) ([]T, error) {
	out := make([]T, 0, len(values))
	for i, value := range values {
		typed, ok := value.(T)
		if !ok {
			return nil, fmt.Errorf("element %d is a %T, not a %T", i, value, *new(T))
		}
		out = append(out, typed)
	}
	return out, nil
}

// PtrCopy points to a copy of what a pointer points to; nil of nil.
func PtrCopy[T any](from *T) *T {
	if from == nil {
		return nil
	}
	value := *from
	return &value
}
