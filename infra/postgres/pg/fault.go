package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"everloop/domain"
)

// Fault gives a failed statement its place among the domain's errors: text that
// PostgreSQL cannot keep and values outside a CHECK are the client's doing, a
// server that is away is a dependency that is down, the rest is ours. doing
// completes "cannot …" for the log.
func Fault(doing string, err error) error {
	if err == nil {
		return nil
	}

	if _, ok := errors.AsType[*domain.Error](err); ok {
		return err
	}

	wrapped := fmt.Errorf("%s: %w", doing, err)

	pgErr, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case answered && domain.IsTextState(pgErr.Code):
		return domain.UnstorableText(wrapped)
	case answered && (pgErr.Code == "23514" || pgErr.Code == "22001" || pgErr.Code == "22003"):
		return &domain.Error{
			Kind: domain.Invalid, Code: domain.CodeInvalidRequest,
			Message: "a value is outside its bounds", Err: wrapped,
		}
	case answered && (pgErr.Code[:2] == "57" || pgErr.Code[:2] == "53" || pgErr.Code[:2] == "08"):
		return domain.Unavailablef("the database", wrapped) // shutting down, out of connections, cut off
	case answered, errors.Is(err, context.Canceled):
		return wrapped
	case awayFrom(err):
		return domain.Unavailablef("the database", wrapped)
	}

	return wrapped
}

// awayFrom reports that no answer came: the server could not be reached, or not
// in time.
func awayFrom(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}

	var network net.Error

	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) // the server died in the middle
}
