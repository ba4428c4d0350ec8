//go:build linux

package workspace

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"everloop/domain"
)

// Codes of the errors that this package returns in addition to domain's own.
const (
	CodeIsDirectory    = "is_a_directory"         // 422
	CodeNotDirectory   = "not_a_directory"        // 422
	CodeNotRegular     = "not_a_regular_file"     // 422: a link, pipe, socket or device
	CodeExists         = "file_exists"            // 409
	CodeNotEmpty       = "directory_not_empty"    // 409
	CodeStale          = "stale_file"             // 409: the file does not match the ETag
	CodeTooLarge       = "too_large"              // 413
	CodeTooManyEntries = "too_many_entries"       // 413: of a directory
	CodeNoSpace        = "no_space"               // 413
	CodeDiskFull       = "disk_full"              // 503: only the reserve of the disk is free
	CodeBadPath        = "invalid_path"           // 400
	CodeDenied         = "file_permission_denied" // 403
)

// explain converts a kernel error to an error about the caller's path. It never contains a host
// path.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}

	if _, ok := errors.AsType[*domain.Error](err); ok {
		return err
	}

	if path == "" {
		path = "."
	}

	path = shorten(path)
	fault := func(kind domain.Kind, code, what string) error {
		return domain.Newf(kind, code, "%s %s", path, what)
	}

	switch {
	case errors.Is(err, errStale), errors.Is(err, unix.ESTALE): // another machine has replaced it
		return fault(domain.Conflict, CodeStale, "was changed since it was read")
	case errors.Is(err, unix.EXDEV):
		return outside(path)
	case errors.Is(err, unix.ELOOP):
		return fault(domain.Invalid, CodeNotRegular, "is a broken symbolic link")
	case errors.Is(err, unix.ENXIO): // a pipe without a reader, or a socket
		return fault(domain.Invalid, CodeNotRegular, "is not a regular file")
	case errors.Is(err, unix.ENOENT):
		return fault(domain.NotFound, domain.CodeFileNotFound, "does not exist")
	case errors.Is(err, unix.ENOTDIR):
		return fault(domain.Invalid, CodeNotDirectory, "is not a directory, or a part of it is not")
	case errors.Is(err, unix.EISDIR):
		return fault(domain.Invalid, CodeIsDirectory, "is a directory")
	case errors.Is(err, unix.EEXIST):
		return fault(domain.Conflict, CodeExists, "exists already")
	case errors.Is(err, unix.ENOTEMPTY):
		return fault(domain.Conflict, CodeNotEmpty, "is not empty")
	case errors.Is(err, unix.ENAMETOOLONG):
		return fault(domain.Malformed, CodeBadPath, "is too long: 255 bytes for a name, 4096 for a path")
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault(domain.TooLarge, CodeNoSpace, "could not be written: no space is left")
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fault(domain.Forbidden, CodeDenied, "may not be accessed")
	}

	return fmt.Errorf("workspace: %s: %w", path, err)
}

func outside(path string) error {
	return domain.Newf(domain.Malformed, domain.CodePathOutside, "%s leaves the workspace", path)
}
