package external

import (
	"context"
	"errors"
	"os"
	"time"

	"everloop/domain"
)

// probeTime is the timeout of a probe's request.
const probeTime = 5 * time.Second

// failed returns the result of a failed probe, with a remedy.
func failed(message, hint string) domain.CheckResult {
	return domain.CheckResult{Status: domain.CheckFail, Message: message, Hint: hint}
}

// passed returns the result of a successful probe.
func passed(message string) domain.CheckResult {
	return domain.CheckResult{Status: domain.CheckOK, Message: message}
}

// Cause returns the innermost error: outer errors repeat addresses, which can contain secrets.
func Cause(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return "no answer in time"
	}

	for {
		inner := errors.Unwrap(err)
		if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) > 0 {
			inner = joined.Unwrap()[0]
		}

		if inner == nil {
			return err.Error()
		}

		err = inner
	}
}
