// Package access reads sessions for a caller who may see or change them, and holds what
// several areas of the interface ask on the way: roles of solutions, events of changed
// files. It must not know the shape of an answer.
package access
