// Package files is the area of the interface for files: those of workspaces and those of
// published apps. It must not know where they are kept.
package files
