//go:build linux

package snapshots

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/domain"
	"everloop/infra/snapshots/beneath"
	"everloop/infra/snapshots/spool"
)

// Codes of the errors that this package returns in addition to domain's own.
const (
	CodeNotFound   = "snapshot_not_found" // 404
	CodeBadID      = "invalid_snapshot"   // 422
	CodeDamaged    = "snapshot_damaged"   // 500: an object is missing or its content was changed
	CodeNotRegular = "not_a_regular_file" // 422: a directory or link, where a file was expected

	CodeNotDirectory = "not_a_directory" // 422
	CodeTooMany      = "too_many_files"  // 413: more entries than a snapshot can have
)

// damaged returns the error of an unavailable path of a snapshot, with the reason.
func damaged(id, path, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if path == "" {
		return domain.Newf(domain.Internal, CodeDamaged, "snapshot %s is damaged: %s", id, what)
	}

	return domain.Newf(domain.Internal, CodeDamaged, "snapshot %s is damaged: the content of %s %s", id, shown(path), what)
}

// missing reports whether an object does not exist.
func missing(err error) bool {
	e, ok := errors.AsType[*domain.Error](err)
	return ok && e.Kind == domain.NotFound
}

// shown returns a path for a message: printable and of limited length.
func shown(p string) string {
	if len(p) > 200 {
		p = p[:200] + "…"
	}

	return strings.ToValidUTF8(p, "\uFFFD")
}

// fault converts a kernel error about a path of the workspace. It never contains a host path.
func fault(p string, err error) error {
	switch {
	case err == nil:
		return nil
	case beneath.NoSpace(err):
		return domain.Newf(domain.TooLarge, spool.CodeNoSpace, "%s could not be written: no space is left in the workspace", shown(p))
	}

	if _, ok := errors.AsType[*domain.Error](err); ok {
		return err
	}

	return fmt.Errorf("snapshots: %s: %w", shown(p), err)
}

// reason returns the user-facing reason why a path was skipped.
func reason(err error) string {
	switch {
	case beneath.Denied(err):
		return "the service may not change it"
	case beneath.Vanished(err):
		return "something else changed it at the same time"
	case errors.Is(err, unix.EBUSY):
		return "it is in use"
	case errors.Is(err, unix.ENAMETOOLONG):
		return "its path is too long"
	case errors.Is(err, unix.EFBIG):
		return "it is larger than the file system takes"
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTEMPTY):
		return "something else was put in its place at the same time"
	}

	return ""
}
